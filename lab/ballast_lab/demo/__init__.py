"""The real daemon against the embedded cluster."""
