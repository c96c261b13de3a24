"""The Kubernetes API of the embedded cluster."""
