"""The verbs of the queue. They answer in tens of milliseconds, so they import little: no numpy, numba or typer.

`client` has the verbs that change something, `asking` those with estimates and explanations, `calling` the connection
to the daemon, `options` the options of all verbs, `sbatch` the options in scripts; `from_file` submits a workload;
`top`, `doctor` and `printing` show; `boot` starts a queue with the machine, `restoring` restores a backup.
"""
