"""What replicas really draw: averaged, learned, and held against what was predicted."""
