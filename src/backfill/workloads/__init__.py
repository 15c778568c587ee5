"""Generators with the published distributions."""
