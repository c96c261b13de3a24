"""The commands of `ballast` that need the lab."""
