"""`ballast doctor`: asks what the daemon would ask, changes nothing, and says what to set."""
