"""The process that makes plans: its requests, the worker, and the daemon's side of it."""
