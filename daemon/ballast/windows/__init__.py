"""Sliding windows of samples and their statistics. Pure."""
