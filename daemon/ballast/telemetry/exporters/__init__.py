"""What is asked of each exporter: one file per preset of BALLAST_PROMETHEUS__PRESET."""
