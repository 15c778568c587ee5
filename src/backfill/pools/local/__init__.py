"""The pool that is this machine.

processes of a queue outlive its daemon: a `supervisor` starts one attempt, ends it, and writes down how it ended; the
`keeper`, a script, starts jobs and takes over from a supervisor that was killed. An attempt has a run folder, of which
`attempts` says what is true; the `witness` knows which attempts began, and outlives run folders and backups. `groups`
are the control groups in which attempts run. `pool` is the daemon's hand on all that; `recovery` brings the log up to
date with what happened while no daemon was there.
"""
