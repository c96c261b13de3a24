"""The commands of `ballast experiment`, one file each, and what they share."""
