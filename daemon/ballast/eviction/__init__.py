"""Which pods may be evicted: the gate, and what it goes by. Pure."""
