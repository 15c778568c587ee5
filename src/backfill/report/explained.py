"""Why jobs waited, for the chart: a summary of the longest waits, and all about the job that was asked for."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from backfill.analysis.explain import Rules, brief, record_of
from backfill.model.events import BoundEvents
from backfill.model.platform import Platform
from backfill.model.schedule import Schedule
from backfill.model.workload import Workload

LONGEST = 50  # waits of a policy that have a summary: they take seconds on the largest logs, and little room


def explained(
    result: Mapping[str, Any],
    workload: Workload,
    platform: Platform,
    schedule: Schedule,
    events: BoundEvents | None = None,
) -> dict[int, str]:
    """Row of the workload -> why that job waited. result: as in the JSON, with the explanation of a job or without."""
    record = record_of(workload, platform, schedule, workload.jobs.walltime, events)
    job, begin, until = record.waits
    waited = np.zeros(len(workload), np.int64)
    np.add.at(waited, job, until - begin)
    longest = np.argsort(-waited, kind="stable")[:LONGEST]
    rules = Rules(result["policy"])
    found = {row: brief(record, row, rules) for row in longest[waited[longest] > 0].tolist()}
    if (asked := result.get("explanation")) is not None:
        found[workload.row_of(asked["job"])] = "\n".join(asked["text"])
    return found
