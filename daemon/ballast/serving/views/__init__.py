"""What the page shows beyond the documents of each part: the fleet in columns, a day of history, the overview."""
