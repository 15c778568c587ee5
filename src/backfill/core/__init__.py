"""The decision core: what a policy sees, what it may do, and what it can rely on.

What a policy sees
    A view of the State (view.py) as it is after all events of one instant: the jobs submitted so far, the machine as it
    is now, what is free, what runs and ran, who waits, what was promised, what happened at this instant, and what it
    owns itself. Not the true run times, not the jobs to come, nor how many there are (arrays with a row for each job
    end with the last one submitted), and not an outage before it is announced.

What it may do
    Read the fields in view.READABLE. Write the items of its own memory, `state.own.NAME[...]`. Call the verbs, which
    backfill.verbs gathers. It returns nothing. A verb that is given something wrong writes the first mistake to
    `state.trace.error` and does nothing; the loop stops at the end of that pass, in plain Python at once.

What it can rely on
    * One pass per instant at which anything happened, after all ends, then the events of a file, then all submits
      of that instant; one pass per event with `--ties step`. `now` does not change within a pass and grows from pass
      to pass, but a job of run time 0 ends in another pass at the same instant.
    * Between passes: its memory, the promises that it made, the timers that it asked for, and the numbers of jobs and
      runs, which never change. `start` is the only way to start, and what was started is in `free` and `runs` at once.
    * Not between passes: `placed`, `shadow`, `batch` and where a walk stands. `placed` holds until the next question
      for a place, `shadow` until the next `shadow_time`. While windows are announced, `start` wants a `place` just
      before it, or another verb that found room for the job from now on. A plan (`rebuild`, `settle`) is as old as its
      last `rebuild`.
    * Walltimes, priorities, capacity and limits may change between passes; `batch.changes` counts what did. A run may
      end early, late (beyond its limit, with `--overrun extend`) or be lost, and its job may wait again.
    * The same events give the same passes: no clock, no chance but `pick`, no file.

Who writes which room: docs/architecture.md, compared with the source by tests/test_rooms.py.

The world (world.py) is a source of events and keeps a book of what runs hold, which no policy ever gets.
"""
