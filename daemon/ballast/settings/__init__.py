"""Settings: read from the environment and a file, checked, explained."""
