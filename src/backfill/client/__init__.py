"""The verbs of the queue. They answer in tens of milliseconds, so they import little: no numpy, numba or typer.

`client` has those that change something, `asking` those that ask what will come, `calling` reaches the daemon,
`options` has the options of all, `sbatch` those of scripts; `from_file` submits a workload; `top`, `doctor`, `printing`
show; `boot` has a queue start with the machine, `restoring` puts a backup in its place.
"""
