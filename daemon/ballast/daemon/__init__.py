"""Assembly: builds the parts, owns threads, signals and the order of shutdown."""
