"""The decision core: what a policy sees, what it may do, and what it can rely on.

What a policy sees
  A view of the State (view.py) as it is after all events of one instant: the jobs submitted so far, the machine as it
  is now, the free resources, the present and past runs, the waiting jobs, the promises, the events of this instant,
  and the policy's own memory. It does not see true run times, jobs to come or their number (arrays with a row for each
  job end with the last one submitted), or outages before they are announced.

What it may do
  Read the fields in view.READABLE. Write the items of its own memory, `state.own.NAME[...]`. Call the verbs, which
  backfill.verbs gathers. It returns nothing. A verb that gets an invalid argument records the first mistake in
  `state.trace.error` and does nothing; the loop stops at the end of that pass, in plain Python at once.

What it can rely on
  * There is one pass per instant at which anything happened, after all ends, then the events of a file, then all
    submits of that instant; with `--ties step`, one pass per event. `now` is constant within a pass and increases from
    pass to pass, except that a job of run time 0 ends in another pass at the same instant.
  * Kept between passes: the policy's memory, its promises, its timers, and the numbers of jobs and runs, which never
    change. `start` is the only way to start a job; `free` and `runs` include the new run at once.
  * Not kept between passes: `placed`, `shadow`, `batch` and the position of a walk. `placed` is valid until the next
    search for a placement, `shadow` until the next `shadow_time`. While windows are announced, `start` must directly
    follow `place` or another verb that found a placement for the job from now on. A plan (`rebuild`, `settle`) is as
    old as its last `rebuild`.
  * Walltimes, priorities, capacity and limits may change between passes; `batch.changes` counts the changes. A run may
    end early, late (beyond its limit, with `--overrun extend`) or be lost, and its job may wait again.
  * The same events give the same passes: no clock, no file, no randomness except `pick`.

Which module writes which record is listed in docs/architecture.md and compared with the source by tests/test_rooms.py.

The world (world.py) is a source of events. It keeps its own account of what runs hold, which no policy can read.
"""
