"""The world of a virtual clock: for a simulated log, and for possible futures of a queue."""

from typing import Any

import numpy as np

from backfill.compiler.record import SMALL, column, zeros
from backfill.compiler.view import View
from backfill.core.loop import advance, count_pass
from backfill.core.plan.profile import FUTURE
from backfill.core.policy import Policy
from backfill.core.predict.predictor import new_predictor
from backfill.core.world import NOT_YET, World, close_instant, open_instant
from backfill.model.platform import Platform


def new_world(n: int, platform: Platform, policy: Policy, **fields: Any) -> Any:
    """Return a World of n jobs in which nothing happens but their submits and ends.

    fields: fields of core/world.py for requests, run times, and further events.
    """
    nodes, runs, (first, items) = len(platform.nodes), max(n, 1), (zeros(n + 1), zeros(0))
    many, dangling = runs if policy.preempts else 1, n if policy.dangles else 1
    usual = {
        "stepping": 0,
        "overrun": 0,
        "requeue": 1,
        "jobs": n,
        "until": FUTURE,
        "row": np.arange(n),
        "speed": column(platform.speed, np.float64),
        "coallocation": np.array([1.0 + platform.coallocation_overhead]),
        "outcome": np.full(n, NOT_YET, np.int8),
        "linked": 0,
        "before": zeros(1),
        "think": zeros(1),
        "thought_time": zeros(SMALL),
        "thought_job": zeros(SMALL),
        "thoughts": 0,
        "after_first": first,
        "after_item": items,
        "unknown": zeros(dangling),
        "known": np.zeros(dangling, np.int8),
        "quota_first": first,
        "quota_item": items,
        "quota_left": zeros(0),
        "refused_for": np.full(1, -1),
        "queued": np.zeros(1, np.int8),
        "due": np.empty(runs, np.int64),
        "cut": np.empty(runs, np.int8),
        "gone": np.zeros(1, np.int8),
        "done": zeros(many),
        "owed": zeros(many),
        "anew": np.full(many, -1),
        "kept": zeros(many),
        "pace": zeros(SMALL, 4),
        "paces": 0,
        "end_time": zeros(SMALL),
        "end_run": zeros(SMALL),
        "ends": 0,
        "over_time": zeros(SMALL),
        "over_run": zeros(SMALL),
        "overs": 0,
        "act": zeros(0, 8),
        "act_priority": np.zeros(0),
        "do_act": 0,
        "acts": 0,
        "acts_left": 0,
        "base": platform.capacity.copy(),
        "less": np.zeros_like(platform.capacity),
        "base_copies": platform.copies.reshape(-1, 1).copy(),
        "less_copies": np.zeros_like(platform.copies),
        "shut": zeros(nodes),
        "down": np.zeros(nodes, np.int8),
        "foresee": 0,
        "predictor": new_predictor(0, 0),
        "book": platform.capacity.copy(),
        "book_licences": platform.copies.copy(),
    }
    return World(**usual | fields)


def pass_time(policy: Policy, arrange: Any, state: Any, world: Any, most: int) -> int:
    """Run at most `most` passes of the policy.

    Return how many there were; fewer mean that nothing will happen any more. arrange: the function that sorts the queue
    before each pass.
    """
    if policy.compiled:
        return int(advance(arrange, policy.entry, state, world, most))
    passes, view = 0, View(state, policy.layout)
    while passes < most and open_instant(state, world):
        arrange(state)
        policy.decide(view)
        close_instant(state, world)
        count_pass(state)
        passes += 1
    return passes
