"""Commands that look at a running daemon: `status`, `top` and `sysdump`."""
