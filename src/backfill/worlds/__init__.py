"""Worlds: the sources of events and of time."""
