"""Placement of GPU pods on the nodes of a public trace, beside the published results."""
