"""The worlds in which time passes."""
