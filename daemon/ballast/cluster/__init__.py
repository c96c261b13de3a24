"""Reads and writes the Kubernetes API: listing, watching, the one writer, the Lease."""
