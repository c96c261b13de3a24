"""What the HTTP API answers, as types: the page and the command line read the same."""
