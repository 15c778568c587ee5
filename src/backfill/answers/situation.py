"""The situation of a waiting job: the nodes that it may use, what is free there now, and the runs that hold the rest.

What it lacks is found by the code that explains simulations (analysis/explain); here are the amounts of this instant,
from the State of the planner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from backfill.analysis.explain.asks import NODE, Asks
from backfill.analysis.explain.holders import amounts_held
from backfill.analysis.explain.lacks import SCATTERED, Lacking
from backfill.analysis.explain.room import Room
from backfill.answers.asked import Queue
from backfill.core.plan.promises import NO_TIME
from backfill.model.errors import PlatformError
from backfill.model.workload import Ints
from backfill.queue.job import Job
from backfill.queue.shapes import JsonObject
from backfill.worlds.adapt import Causes, as_run
from backfill.worlds.live import Planner

NODES = 8  # most nodes that are listed by name
BOUND = ("partition", "constraint", "site")  # requests that restrict a job to some nodes


@dataclass(frozen=True, eq=False)
class Situation:
    """A waiting job and the active runs. Runs are in the order of their limits; a seat is the part of a run on one
    node."""

    room: Room  # resources at this time; row 0 is the job, row 1 + i that of run i
    runs: Ints  # indices of the runs in the State
    ids: list[int]  # job of each run
    limit: Ints  # latest end of each run
    owner: Ints  # run of each seat
    node: Ints
    tasks: Ints  # on whole nodes 1
    base: Ints  # of each node: what it has without reservations

    @classmethod
    def of(cls, queue: Queue, job: Job) -> "Situation":
        """Return the situation of a job in the queue, or of one that is not submitted."""
        planner = queue.planner
        state, platform = planner.state, planner.platform
        active = state.runs.by_limit[: state.runs.active]
        runs = active[[planner.ids[row] in queue.jobs for row in state.runs.job[active].tolist()]]
        rows = state.runs.job[runs].tolist()
        ids = [planner.ids[row] for row in rows]
        asks, _ = asked(planner, [job, *(queue.jobs[number] for number in ids)])
        if state.machine.pool:
            owner, node, tasks = np.arange(len(runs)), np.zeros(len(runs), np.int64), state.jobs.tasks[rows]
        else:
            many = state.runs.many[runs].astype(np.int64)
            owner = np.repeat(np.arange(len(runs)), many)
            at = np.arange(len(owner)) - np.repeat(np.cumsum(many) - many, many) + state.runs.first[runs][owner]
            node, tasks = state.runs.held[at].T
        nodes, resources = np.flatnonzero(asks.nodes(0)), np.flatnonzero(asks.demand[0] > 0)
        there = state.machine.capacity[np.ix_(nodes, resources)]
        licences, copies = asks.licences_of(0)
        copies_there = asks.platform.copies[licences]
        used = [int(asks.copies_of(each)[1:].sum()) for each in licences.tolist()]
        copies_free = copies_there - np.array(used, np.int64)
        floating = licences < len(platform.licences)
        copies_there[floating] = state.machine.copies[licences[floating]]
        copies_free[floating] = state.free.licences[licences[floating]]
        lanes = np.arange(len(nodes))
        room = Room(
            asks=asks,
            row=0,
            times=np.array([queue.now]),
            until=queue.now + 1,
            resources=resources,
            licences=licences,
            copies=copies,
            nodes=nodes,
            lane=lanes,
            place=np.zeros_like(lanes),
            there=there,
            held=there - state.free.nodes[np.ix_(nodes, resources)],
            copies_there=copies_there[None, :],
            copies_free=copies_free[None, :],
        )
        limits = queue.planner.limits(runs)
        return cls(room, runs, ids, limits, owner, node, tasks, state.machine.base)

    @cached_property
    def lacking(self) -> Lacking:
        """The resources, licences and limits, with those of which too little is free."""
        return Lacking.of(self.room)

    @cached_property
    def lacks(self) -> list[Any]:
        """The resources, licences and limits of which too little is free; empty if the job would fit."""
        return [lack for lack, short in zip(self.lacking.lacks, self.lacking.short[0], strict=True) if short]

    @cached_property
    def held(self) -> Ints:
        """The amount of each lacking resource that each run holds, shape (runs, lacks)."""
        job = np.arange(1, len(self.ids) + 1)
        return amounts_held(self.room.asks, 0, self.lacks, job, self.owner, self.node, self.tasks)

    def most_on_one(self, column: int) -> int:
        """Return the largest free amount of a resource on a single node."""
        return max(int(self.room.free[:, column].max(initial=0)), 0)

    def facts(self, labels: dict[int, str], planner: Planner, bound: dict[str, str]) -> JsonObject:
        """Return the nodes that the job may use: free, full (by which jobs, until when), reserved and closed ones.

        labels: of jobs. bound: the facts that restrict the job's nodes.
        """
        room, names = self.room, planner.names
        several = room.tasks if room.asks.spread(0) == NODE else 1  # tasks of which a node is of use
        enough = room.tasks_at(room.whole, room.demand) >= several
        base = self.base[np.ix_(room.nodes, room.resources)]
        up, serves = (room.tasks_at(there, room.demand) >= several for there in (room.there, base))
        here, opens = room.tasks_at(room.free, room.demand), self._opens(several)
        order = np.argsort(opens, kind="stable")
        full = order[(up & (here < several))[order]]
        return {
            "of": len(planner.nodes),
            "may_use": len(room.nodes),
            "large_enough": int(enough.sum()),
            "bound": bound,
            "tasks": room.tasks,
            "have_room": int(self.lacking.seated[0]),
            "alone": room.asks.spread(0) == NODE,
            "whole": bool(room.asks.whole[0]),
            "open": {
                "count": int((here >= several).sum()),
                "first": [
                    [names[room.nodes[lane]], int(here[lane])] for lane in np.flatnonzero(here >= several)[:NODES]
                ],
            },
            "full": {"count": len(full), "first": [self._full(lane, opens, labels, names) for lane in full[:NODES]]},
            "shut": _counted(names, room.nodes[enough & ~serves]),
            "reserved": _counted(names, room.nodes[enough & serves & ~up]),
        }

    @property
    def shut(self) -> Ints:
        """The nodes that could take a task of the job if they had what the platform states."""
        room = self.room
        base = self.base[np.ix_(room.nodes, room.resources)]
        fit, whole = room.tasks_at(base, room.demand), room.tasks_at(room.whole, room.demand)
        return room.nodes[whole > fit]

    def _full(self, lane: Any, opens: Ints, labels: dict[int, str], names: tuple[str, ...]) -> JsonObject:
        node = self.room.nodes[lane]
        mine = np.flatnonzero(self.node == node)
        jobs = [
            {
                "id": self.ids[self.owner[seat]],
                "label": labels[self.ids[self.owner[seat]]],
                "latest_end_s": int(self.limit[self.owner[seat]]) / 1e6,
            }
            for seat in mine.tolist()
        ]
        until = None if opens[lane] == NO_TIME else int(opens[lane]) / 1e6
        return {"node": names[node], "opens_s": until, "jobs": jobs}

    def _opens(self, several: int) -> Ints:
        """Return when each node can take `several` tasks, if all runs last until their limits and nothing else starts.

        NO_TIME if that never happens.
        """
        room, asks = self.room, self.room.asks
        lane_of = np.full(len(asks.platform.nodes), -1)
        lane_of[room.nodes] = room.lane
        free, wanted = room.free.copy(), several * room.demand
        opens = np.where((free >= wanted).all(axis=1), room.times[0], NO_TIME)
        lanes, demand = lane_of[self.node].tolist(), asks.demand[:, room.resources]
        for seat in np.argsort(self.owner, kind="stable").tolist():
            lane, run = lanes[seat], self.owner[seat]
            if lane >= 0 and opens[lane] == NO_TIME:
                free[lane] += self.tasks[seat] * demand[1 + run]
                if (free[lane] >= wanted).all():
                    opens[lane] = max(self.limit[run], room.times[0])
        return opens


def _counted(names: Sequence[str], nodes: Ints) -> JsonObject:
    return {"count": len(nodes), "first": [names[node] for node in nodes[:NODES]]}


def asked(planner: Planner, jobs: list[Job]) -> tuple[Asks, Causes]:
    """Return the requests of jobs on the platform of the queue, and why each can never run; see worlds/adapt.py."""
    workload = planner.workload([(job.id, job.facts()) for job in jobs])
    those, machine, whole, causes = as_run(workload, planner.platform, planner.policy.place)
    return Asks(workload, those, machine, len(planner.platform.licences), whole.per_node > 0), causes


def may_run(planner: Planner, job: Job) -> bool:
    """Return whether the platform of the queue accepts a job: no rule forbids it, and whole nodes for it are alike."""
    try:
        _, causes = asked(planner, [job])
    except PlatformError:
        return False
    return not causes[0]


def lack_facts(situation: Situation, among: bool) -> list[JsonObject]:
    """Return what the job lacks, for JSON. among: whether the platform has nodes, which adds facts about them."""
    found: list[JsonObject] = []
    for lack in situation.lacks:
        facts: dict[str, object] = {"resource": lack.name, "needs": lack.needed, "free": int(lack.free[0]),
                        "capacity": int(lack.there[0])}  # fmt: skip
        if among:
            facts["kind"] = lack.kind
            facts["on_one"] = situation.most_on_one(lack.column) if lack.kind == SCATTERED else None
        found.append(facts)
    return found
