"""What State.counters holds: a small account of the work, for benchmarks and progress bars."""

LOOKS = 0  # jobs, or nodes of the queue's tree, that were looked at; searches of the plan
COUNTERS = 1
