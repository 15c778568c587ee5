"""The demands in a workload table: the resources that each task holds, and the nodes on which it may run."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from backfill.model.constraint import EXPECTED, alternatives, is_gpu_type, with_feature
from backfill.model.errors import quote
from backfill.model.units import amount, parse_size
from backfill.model.workload import Ints, Labels
from backfill.traces.columns import Columns

MEMORY = ("memory", "memory_per_job", "memory_per_cpu")  # alternative columns for memory, one of them per row
_MOST = 2**62
_GPUS = f"a whole number from 0 to {_MOST}, or type:number of one type such as a100:2"


@dataclass(frozen=True, eq=False)
class Demand:
    """The resources that the tasks of each job hold, and the nodes on which they may run."""

    held: dict[str, Ints]  # by resource, cpus first; shape (rows,) each
    constraint: Labels  # including the GPU type
    notes: tuple[str, ...]

    @classmethod
    def of(cls, table: Columns, tasks: Ints, resources: Collection[str]) -> "Demand":
        """Read the demand of a table whose jobs have these numbers of tasks; resources in the order of its columns.

        resources: names of further columns that are resources. Raises the table's error.
        """
        held = {"cpus": _wholes(table, "cpus") if "cpus" in table else np.ones(table.rows, np.int64)}
        constraint = _constraint(table)
        for name in table.names:
            if name in MEMORY:
                if "memory" not in held:
                    held["memory"] = _memory(table, tasks, held["cpus"])
            elif name == "gpus":
                held["gpus"], types = _gpus(table)
                constraint = _on_gpus(table, constraint, types)
            elif name != "cpus" and name in resources:
                held[name] = _wholes(table, name)
        return cls(held, constraint, _reading(table, tasks))


def _wholes(table: Columns, name: str) -> Ints:
    return table.wholes(name, 0, _MOST, 0)


def _memory(table: Columns, tasks: Ints, cpus: Ints) -> Ints:
    """Return bytes per task."""
    given = {name: _wholes(table, name) for name in MEMORY if name in table}
    for one, other in combinations(given, 2):
        if (both := (given[one] > 0) & (given[other] > 0)).any():
            table.refuse_any(other, both, f"nothing, because the row has {one} too")
    none = np.zeros(table.rows, np.int64)
    per_task, per_job, per_cpu = (given.get(name, none) for name in MEMORY)
    if (bare := (per_cpu > 0) & (cpus == 0)).any():
        table.refuse_any("memory_per_cpu", bare, "nothing, because the tasks of the job hold no cpus")
    if (beyond := per_cpu.astype(np.float64) * cpus > _MOST).any():
        for row in np.flatnonzero(beyond).tolist():
            table.refuse("memory_per_cpu", row, f"less: the {cpus[row]:,} cpus of a task hold more than 2^62 bytes")
        per_cpu = np.where(beyond, 0, per_cpu)
    bytes_held: Ints = per_task - (-per_job // tasks) + per_cpu * cpus
    return bytes_held


def _reading(table: Columns, tasks: Ints) -> tuple[str, ...]:
    """Return a note on how `memory` beside `procs` is read (it may be meant per job), with the first such job."""
    if not ("procs" in table and "memory" in table):
        return ()
    memory = _wholes(table, "memory")
    several = np.flatnonzero((memory > 0) & (tasks > 1))
    if not len(several):
        return ()
    row = int(several[0])
    example = f"procs={tasks[row]} with memory={table.texts('memory')[row]}"
    whole = amount("memory", int(memory[row]) * int(tasks[row]))
    return (f"memory is per task: {example} hold {whole} in total; use memory_per_job for the memory of a whole job",)


def _gpus(table: Columns) -> tuple[Ints, Labels]:
    """Return the number of GPUs of a task, and their type."""
    texts = table.texts("gpus")
    known: dict[str, tuple[int, str]] = {}
    bad: set[str] = set()
    for row, text in enumerate(texts):
        if text not in known:
            try:
                known[text] = _typed(text)
            except ValueError:
                known[text] = 0, ""
                bad.add(text)
        if text in bad:
            table.refuse("gpus", row, _GPUS)
    counts = np.fromiter((known[text][0] for text in texts), np.int64, table.rows)
    return counts, Labels.of([known[text][1] for text in texts])


def _typed(text: str) -> tuple[int, str]:
    """Parse `2`, or Slurm's `a100:2`, `gpu:2` or `gpu:a100:2`. Raises ValueError."""
    name, colon, number = text.removeprefix("gpu:").rpartition(":")
    count = parse_size(number) if text else 0
    if count > _MOST or (colon and not is_gpu_type(name)):
        raise ValueError(text)
    return count, name if count else ""


def _constraint(table: Columns) -> Labels:
    constraints = Labels.of(table.texts("constraint"))
    legal = constraints.codes < 0
    for code, text in enumerate(constraints.names):
        try:
            alternatives(text)
        except ValueError:
            table.refuse_any("constraint", constraints.codes == code, EXPECTED)
        else:
            legal |= constraints.codes == code
    return (
        constraints if legal.all() else Labels.of([constraints[row] if legal[row] else "" for row in range(table.rows)])
    )


def _on_gpus(table: Columns, constraint: Labels, types: Labels) -> Labels:
    """Return the constraints, extended by the GPU type, which is a node feature."""
    if not types.names:
        return constraint
    known: dict[tuple[str, str], str] = {}
    texts = []
    for row in range(table.rows):
        request = constraint[row], types[row]
        if request not in known:
            try:
                known[request] = with_feature(*request) if request[1] else request[0]
            except ValueError:
                table.refuse("gpus", row, f"a type that its constraint {quote(request[0])} allows")
                texts.append("")
                continue
        texts.append(known[request])
    return Labels.of(texts)
