"""Results for people: terminal tables and the page."""
