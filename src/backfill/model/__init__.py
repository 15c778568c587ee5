"""What exists, as plain data: workloads, platforms, schedules, units, errors."""
