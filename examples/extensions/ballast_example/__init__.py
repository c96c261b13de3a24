"""Extensions for Ballast: a strategy, a check and a preset."""
