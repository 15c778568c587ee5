"""Explanations of waits for the chart: summaries of the longest waits, and the full text for the requested job."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from backfill.analysis.explain import Asks, Record, Rules, brief
from backfill.model.events import BoundEvents
from backfill.model.platform import Platform
from backfill.model.reservations import divide
from backfill.model.schedule import Schedule
from backfill.model.workload import Ints, Workload
from backfill.worlds.adapt import as_run

LONGEST = 50  # waits of a policy that have a summary: these take seconds on the largest logs, and little space


def record_of(
    workload: Workload,
    platform: Platform,
    schedule: Schedule,
    seen: Ints,
    events: BoundEvents | None = None,
    *,
    place: str = "power",
    overhead: int = 0,
) -> Record:
    """Index a schedule for queries about its jobs.

    seen: the walltimes of its jobs as seen by policies. place: how jobs are placed if their partition does not state
    it. overhead: what a checkpoint adds to walltimes, in microseconds.
    """
    if (divided := divide(workload, platform, events)) is not None:
        schedule = divided.division.divided(schedule, workload.jobs)
        platform, events = divided.platform, divided.events
    asked = workload if divided is None else divided.workload
    jobs, machine, whole, _ = as_run(asked, platform, place)
    division = None if divided is None else divided.division
    asks = Asks(workload, jobs, machine, len(platform.licences), whole.per_node > 0, division)
    return Record.of(asks, schedule, seen, events, overhead)


def explained(
    result: Mapping[str, Any],
    workload: Workload,
    platform: Platform,
    schedule: Schedule,
    events: BoundEvents | None = None,
    unit: str | None = None,
) -> dict[int, str]:
    """Explain waits: row of the workload -> the explanation.

    result: as in the JSON, with or without the explanation of a job. unit: of the waits on the page.
    """
    if schedule.shares:  # the missing resources per row are not recorded
        return {}
    place = result["params"].get("place", "power")
    record = record_of(workload, platform, schedule, workload.jobs.walltime, events, place=place)
    job, begin, until = record.waits
    waited = np.zeros(len(workload), np.int64)
    np.add.at(waited, job, until - begin)
    longest = np.argsort(-waited, kind="stable")[:LONGEST]
    rules = Rules(result["policy"])
    texts = {row: brief(record, row, rules, unit) for row in longest[waited[longest] > 0].tolist()}
    if (asked := result.get("explanation")) is not None:
        texts[workload.row_of(asked["job"])] = "\n".join(asked["text"])
    return texts
