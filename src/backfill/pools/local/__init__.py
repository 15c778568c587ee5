"""The pool that is this machine.

The processes of a queue outlive its daemon: a `supervisor` starts one attempt, ends it, and records how it ended; the
`keeper`, a script, starts supervisors and takes over from a supervisor that was killed. Each attempt has a run folder,
whose state `attempts` determines; the witness (`system/witness.py`) records which attempts began, and outlives run
folders and backups. `groups` are the control groups in which attempts run. `pool` is the daemon's interface to all
this; `recovery` brings the log up to date with what happened while no daemon ran.
"""
