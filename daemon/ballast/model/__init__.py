"""Values every room shares: quantities, nodes, pods, windows, the snapshot. Pure."""
