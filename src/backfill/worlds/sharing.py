"""Runs that share processors in turns: how a State counts them, and what such policies do not support."""

from dataclasses import replace

import numpy as np

from backfill.core.policy import Policy
from backfill.model import events
from backfill.model.errors import UsageError
from backfill.model.events import BoundEvents
from backfill.model.platform import Platform
from backfill.model.workload import Ints


def in_rows(platform: Platform, rows: int) -> Platform:
    """Return the platform as a State counts it, with the cpus of all rows. Runs hold everything else all the time."""
    return platform if rows == 1 else replace(platform, capacity=of_rows(platform.capacity, rows))


def of_rows(capacity: Ints, rows: int) -> Ints:
    """Return the capacity of nodes with the cpus of this many rows."""
    times = np.ones(capacity.shape[1], np.int64)
    times[0] = rows
    return capacity * times


def of_one_row(capacity: Ints, rows: int) -> Ints:
    """Return the capacity of nodes with the cpus of one of this many rows."""
    if rows == 1:
        return capacity
    one = capacity.copy()
    one[:, 0] //= rows
    return one


def check_shared(policy: Policy, rows: int, whole: bool, bound: BoundEvents | None, resources: int) -> None:
    """Raise UsageError for what is undefined while runs share processors: exclusive nodes, and loss of parts of a node.

    whole: whether some job has its nodes exclusively. resources: number of the platform's resources; higher numbers in
    events are licences.
    """
    if rows == 1:
        return
    who = f"policy {policy.name} with mpl={rows}"
    if whole:
        raise UsageError(f"{who} lets jobs share nodes in turns, and a job asks for nodes of its own; expected mpl=1")
    if bound is None:
        return
    partly = (bound.kind == events.CAPACITY) & (bound.resource == 0)
    partly |= (bound.kind == events.WINDOW) & ((bound.resource == 0) | (bound.resource >= resources))
    if partly.any():
        row = int(np.argmax(partly))
        if row in bound.made_for:
            problem = f"reservation {bound.made_for[row]} has some of the cpus of a node"
            raise UsageError(f"{who}: {problem}; expected reservations of whole nodes, or mpl=1")
        kind = events.EVENTS[int(bound.kind[row])]
        problem = "takes away some cpus of a node, or copies of a licence for a time"
        raise UsageError(f"{who}: a {kind} event {problem}; expected events of whole nodes, or mpl=1")
