"""The journal: every transition and every decision, in order. Replaying the transitions gives the decisions again."""

from typing import Any

import numpy as np
from numba import int64

from backfill.compiler.kernel import apart, kernel
from backfill.compiler.record import doubled_rows, record, zeros

# The first number of a row is the code; the others are the arguments of the transition or verb of that name.
(
    TICK,  # instant
    SUBMIT,  # job
    ASK,  # job
    RELEASE,  # job
    VACATE,  # run
    END,  # run, how
    LEAVE,  # job
    ANEW,  # job
    CHANGE,  # job, what, walltime, priority (as its 64 bits)
    CAPACITY,  # node, resource, amount, base
    COPIES,  # licence, copies, base
    ANNOUNCE,  # lane, resource, amount, begin, until
    CLOSE,  # windows
    DECIDE,  # the policy
    START,  # job, reason, run
    ON,  # node, tasks; of the preceding start, not on a pool
    RESERVE,  # job, start, cause, job on whose behalf, end by walltime
    WITHDRAW,  # job
    WAKE,  # instant
    PREEMPT,  # job, how, overhead
    PROCEED,  # job
    DROP,  # job
    PUT,  # job, index of its pair, node, tasks; for the next row with that job, not on a pool
    BEGIN,  # job, since, reason
    PROMISED,  # job, start
    REVOKE,  # lane, resource, amount, begin, until
    RUN_IN,  # job, rows (bits), number of rows
) = (np.int64(i) for i in range(27))
NUMBERS = 6  # per row

JOURNAL = [
    ("kept", int64),  # 1: the journal is kept
    ("row", int64[:, ::1]),  # (rows, 6)
    ("rows", int64),
]
Journal, JournalT = record("Journal", JOURNAL, globals(), fixed=("kept",))


def new_journal(kept: bool) -> Any:
    """Return an empty journal."""
    return Journal(kept=int(kept), row=zeros(256 if kept else 1, NUMBERS), rows=0)


@kernel(inline=True)
def note(state, code, a=0, b=0, c=0, d=0, e=0):
    """Record a transition or decision, if a journal is kept."""
    if state.journal.kept:
        _write(state, code, a, b, c, d, e)


@apart()
def _write(state, code, a, b, c, d, e):
    journal = state.journal
    if journal.rows == len(journal.row):
        journal.row = doubled_rows(journal.row)
    row = journal.row[journal.rows]
    row[0], row[1], row[2], row[3], row[4], row[5] = code, a, b, c, d, e
    journal.rows += 1


@kernel(inline=True)
def note_run(state, run):
    """Record the start of a run and its placement."""
    if state.journal.kept:
        _write_run(state, run)


@apart()
def _write_run(state, run):
    runs = state.runs
    _write(state, START, runs.job[run], runs.reason[run], run, 0, 0)
    if not state.machine.pool:
        for pair in range(runs.first[run], runs.first[run] + runs.many[run]):
            _write(state, ON, runs.held[pair, 0], runs.held[pair, 1], 0, 0, 0)


@kernel()
def note_change(state, job, what, walltime, priority):
    """Record a change of a job."""
    if state.journal.kept:
        _write(state, CHANGE, job, what, walltime, 0, 0)
        state.journal.row[state.journal.rows - 1].view(np.float64)[4] = priority
