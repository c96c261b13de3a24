"""Carries out eviction plans and follows their effect."""
