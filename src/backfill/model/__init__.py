"""Plain data: workloads, platforms, schedules, units, errors."""
