"""Terminal tables and HTML pages."""
