"""Reject, before the first instant, platforms that a policy does not support, and jobs with an unusable reservation."""

from typing import Any

from backfill.core.policy import Policy
from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.reservations import Divided
from backfill.model.workload import Ints


def check_processors(policy: Policy, platform: Platform, most: Ints, hint: str = "") -> None:
    """Raise UsageError for nodes of more than one cpu, if the policy schedules processors.

    most: the greatest capacity that each node ever has, shape (nodes, resources).
    """
    if policy.processors and ((most[:, 0] != 1).any() or platform.licences or platform.limits):
        raise UsageError(
            f"policy {policy.name} schedules nodes of one cpu each, without floating licences and running limits; "
            f"{platform.name} is different{hint}"
        )


def refuse_unreserved(divided: Divided | None, causes: Any) -> None:
    """Reject the jobs that request a reservation that does not exist, or that they may not use.

    Without any reservations, jobs request none.
    """
    if divided is not None:
        causes[~divided.lawful & (causes == "")] = "reservation"
