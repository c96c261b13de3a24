"""What changes the cluster: replicas, caps, evictions and where their replacements land."""
