"""Types of settings beyond plain text and numbers: durations, counts, speeds, lists and maps."""
