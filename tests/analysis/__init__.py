"""What is said about schedules: metrics, series, the independent checker."""
