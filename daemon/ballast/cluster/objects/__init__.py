"""What is kept of API objects: bounded decoding, shapes of pods, and what else pods depend on."""
