"""What a setting can hold beyond plain text and numbers: durations, counts, speeds, lists and maps."""
