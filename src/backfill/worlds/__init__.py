"""Where time passes."""
