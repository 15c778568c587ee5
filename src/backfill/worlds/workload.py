"""Jobs of the queue as a workload, in the terms of their platform."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from backfill.model.platform import Platform
from backfill.model.units import NEVER
from backfill.model.workload import RESOURCES, SPREAD, Counted, Jobs, Labels, Workload
from backfill.queue.job import Facts


@lru_cache(2)
def parsed(text: str) -> Platform:
    """Return the platform of a queue, from the text of its file."""
    from backfill.model.platform_file import parse_platform  # imported only if there is a file

    return parse_platform("the platform of the queue", text)


def table(some: Sequence[tuple[int, Facts]], platform: Platform) -> Workload:
    """Return jobs with these numbers and facts as a workload with unknown run times.

    A requested amount that the platform does not have becomes a resource, or else a licence, of the workload alone.
    """

    def column(name: str) -> list[Any]:
        return [facts[name] for _, facts in some]

    def labels(name: str) -> Labels:
        return Labels.of(column(name))

    n, needs = len(some), column("need")
    named = dict.fromkeys(name for need in needs for name, amount in need.items() if amount)
    strange = [name for name in named if name not in platform.resources and name not in platform.licences]
    resources = (*platform.resources, *(name for name in strange if name in RESOURCES))
    licences = (*platform.licences, *(name for name in strange if name not in RESOURCES))
    submit = np.array(column("submit"), np.int64)
    walltime = np.array(column("walltime"), np.int64) + np.array(column("grace"), np.int64)
    demand = [[need.get(name, 0) for name in resources] for need in needs]
    asked = [
        (row, licence, need[name])
        for row, need in enumerate(needs)
        for licence, name in enumerate(licences)
        if need.get(name)
    ]
    job, item, count = np.array(asked, np.int64).reshape(-1, 3).T
    deadline = np.array([NEVER if due is None else due for due in column("deadline")], np.int64)
    return Workload(
        Jobs(
            job=np.array([number for number, _ in some]),
            submit=submit,
            runtime=np.zeros(n, np.int64),
            walltime=walltime,
            tasks=np.array(column("tasks"), np.int64),
            demand=np.array(demand, np.int64).reshape(n, -1),
            spread=np.array([SPREAD.index(spread) for spread in column("spread")], np.int8),
            exclusive=np.array(column("exclusive"), np.bool_),
            licences=Counted.of_items(n, job, item, count),
            deadline=np.maximum(deadline, submit),
            priority=np.array(column("priority"), np.float64),
            user=labels("user"),
            group=labels("group"),
            project=labels("project"),
            partition=labels("partition"),
            qos=labels("qos"),
            site=labels("site"),
            constraint=labels("constraint"),
            reservation=labels("reservation"),
        ),
        resources=resources,
        licences=licences,
    )
