"""The job `power`: one tick of every power policy."""
