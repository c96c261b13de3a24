"""Feeds of power: watts, schedules and service needs."""
