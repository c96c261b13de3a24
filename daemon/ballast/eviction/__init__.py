"""Which pods may be evicted, and what would be: the gate, and plans simulated behind it. Pure."""
