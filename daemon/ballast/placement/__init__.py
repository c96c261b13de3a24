"""Where pods are, where they are about to be, and which node to choose. Pure."""
