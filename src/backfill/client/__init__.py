"""The verbs of the queue. They answer in tens of milliseconds, so they import little: no numpy, numba or typer.

`client` has those that change something, `asking` those that ask what will come, `options` the options of all, `sbatch`
those of Slurm's scripts; `from_file` submits a workload; `top`, `doctor`, `printing` show; `boot` has a queue start
with the machine, `restoring` puts a backup in its place.
"""
