"""A schedule: when and where each job of a workload ran, and why it started then."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.model import frames
from backfill.model.workload import Ints, Ragged

STATES = ("COMPLETED", "TIMEOUT", "REJECTED", "CANCELLED", "NODE_FAIL", "PREEMPTED")
COMPLETED, TIMEOUT, REJECTED, CANCELLED, NODE_FAIL, PREEMPTED = range(6)
NO_TIME = -(2**62)  # no such instant: a rejected job has no start, most jobs have no promise
TEXTS = ("job", "state", "reason", "node")  # columns of a table that are texts
# Why a job started; a closed list, the index is what the core writes.
REASONS = ("head", "backfill", "reserved", "fit", "gang", "thread", "moved-up", "resumed")
HEAD, BACKFILL, RESERVED, FIT, GANG, THREAD, MOVED_UP, RESUMED = range(8)


@dataclass(frozen=True, eq=False, kw_only=True)
class Schedule:
    """One row per job in the workload's file order; times in int64 microseconds, NO_TIME where there is none."""

    job: NDArray[Any]
    submit: Ints
    start: Ints
    end: Ints
    state: NDArray[np.int8]  # index into STATES
    reason: NDArray[np.int8]  # index into REASONS; -1 where the job never started
    rejected_for: NDArray[Any]  # for a rejected job the resource, licence or cause; else ""
    eligible: Ints  # when nothing but resources held the job back: its submit, or the end of what it came after
    promise: Ints  # the first start that the policy promised; NO_TIME = none
    nodes: tuple[str, ...]
    held: Ragged  # pairs (node, tasks), end to end

    def __len__(self) -> int:
        return len(self.job)

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Which jobs started."""
        ran: NDArray[np.bool_] = self.start != NO_TIME
        return ran

    def take(self, rows: Ints) -> "Schedule":
        """These rows, in this order."""
        columns: dict[str, Any] = {column.name: getattr(self, column.name) for column in fields(self)}
        held = self.held.take(rows)
        for name, value in columns.items():
            if isinstance(value, np.ndarray):
                columns[name] = value[rows]
        return Schedule(**columns | {"held": held})

    def columns(self) -> frames.Columns:
        """What became of each job, for a table; times in seconds."""
        why = (*REASONS, "")
        reasons = zip(self.reason.tolist(), self.rejected_for, strict=True)
        return {
            "job": [str(job) for job in self.job.tolist()],
            **{name: frames.seconds(getattr(self, name).tolist(), NO_TIME) for name in ("submit", "start", "end")},
            "state": [STATES[state] for state in self.state.tolist()],
            "reason": [why[code] or cause for code, cause in reasons],
            "node": [self.node_text(row) for row in range(len(self))],
        }

    def node_text(self, row: int) -> str:
        """`name`, or `a*2;b*3` for a gang that is spread; empty for a rejected job."""
        pairs = self.held[row].reshape(-1, 2).tolist()
        if len(pairs) == 1:
            return self.nodes[pairs[0][0]]
        return ";".join(f"{self.nodes[node]}*{tasks}" for node, tasks in pairs)
