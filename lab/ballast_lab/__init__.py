"""What is not the daemon: an embedded cluster, experiments, published solvers, benchmarks, and attacks on Ballast."""
