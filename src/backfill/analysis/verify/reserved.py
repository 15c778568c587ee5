"""Rule `reservation`, checked on the undivided nodes: which jobs run in a reservation, and which beside it."""

from dataclasses import replace

import numpy as np

from backfill.analysis.verify.capacity import Blocked, Sweep
from backfill.analysis.verify.case import Case, Mask, demand_of
from backfill.model.events import OWNERS
from backfill.model.reservations import Divided, Reservation
from backfill.model.workload import Ints


def on_parts(case: Case, divided: Divided) -> Case:
    """Return the case on the divided platform, for all other rules: runs are on parts of their nodes."""
    node, jobs, division = case.seat_node.copy(), case.workload.jobs, divided.division
    for code, name in enumerate(jobs.reservation.names):
        number = division.number(name)
        for part in division.parts(number) if number >= 0 else ():
            mine = jobs.reservation.codes[case.seat_job] == code
            node[mine & (case.seat_node == division.node[part])] = part
    workload = replace(case.workload, jobs=divided.workload.jobs.replace(demand=jobs.demand, licences=jobs.licences))
    return replace(case, workload=workload, platform=divided.platform, seat_node=node)


def check_reservations(case: Case, until: Ints, reservations: list[Reservation]) -> None:
    """Check that only jobs of its owner run in a reservation, on its nodes, within its amounts and its time.

    case: on the undivided nodes. until: when each run ended.
    """
    for each in reservations:
        asks = np.array([name == each.name for name in case.workload.jobs.reservation.names] + [False], np.bool_)
        mine: Mask = asks[case.workload.jobs.reservation.codes][case.runs.job]
        _check_own(case, until, each, mine)
        if case.placed and each.begin < each.over:
            _check_others(case, until, each, mine)
    names = [each.name for each in reservations]
    known = np.array([name in names for name in case.workload.jobs.reservation.names] + [True], np.bool_)
    for i in case.report.each("reservation", ~known[case.workload.jobs.reservation.codes][case.runs.job]):
        job = case.runs.job[i]
        text = f"requests reservation {case.workload.jobs.reservation[job]}, which does not exist"
        case.report.add("reservation", case.workload.jobs.job[job], case.runs.start[i], text)


def _check_own(case: Case, until: Ints, each: Reservation, mine: Mask) -> None:
    """Check the jobs that request the reservation: shape (runs,) of `mine`."""
    jobs, runs, report = case.workload.jobs, case.runs, case.report
    owners = np.zeros(len(jobs), np.bool_)
    for name, allowed in zip(OWNERS, each.owners, strict=True):
        owners |= [jobs[name][row] in allowed for row in range(len(jobs))]
    for i in report.each("reservation", mine & ~owners[runs.job]):
        report.add("reservation", jobs.job[runs.job[i]], runs.start[i], f"runs in {each.name}, which it may not use")
    outside = (runs.start < each.begin) | (until > each.over) | (runs.start >= each.over)
    for i in report.each("reservation", mine & outside):
        span = f"{report.date(each.begin)} to {report.date(each.over)}"
        text = f"runs until {report.date(until[i])}; expected within {each.name}, from {span}"
        report.add("reservation", jobs.job[runs.job[i]], runs.start[i], text)
    elsewhere = mine[case.seat_run] & ~np.isin(case.seat_node, each.nodes)
    for seat in report.each("reservation", elsewhere & case.placed):
        run = case.seat_run[seat]
        text = f"does not sit on nodes of {each.name}"
        report.add("reservation", jobs.job[runs.job[run]], runs.start[run], text)


def _check_others(case: Case, until: Ints, each: Reservation, mine: Mask) -> None:
    """Check that other jobs fit beside the reservation on its nodes, and that its own jobs hold no more than it has."""
    platform, runs, report = case.platform, case.runs, case.report
    demand = demand_of(case.workload, platform)
    capacity = platform.capacity if case.outages is None else case.outages.most[: len(platform.nodes)]
    most = [
        (mine, np.array(each.nodes, np.int64), each.amounts, "its jobs hold"),
        (~mine, np.array(each.nodes, np.int64), capacity[list(each.nodes)] - each.amounts, "others hold"),
    ]
    for some, nodes, room, who in most:
        seats = np.flatnonzero(some[case.seat_run] & np.isin(case.seat_node, nodes))
        run, lane = case.seat_run[seats], np.searchsorted(nodes, case.seat_node[seats])
        begin, end = np.maximum(runs.start[run], each.begin), np.minimum(until[run], each.over)
        sweep = Sweep(lane, begin, np.maximum(begin, end), Blocked.none())
        for k, name in enumerate(platform.resources):
            amount = case.seat_tasks[seats] * demand[runs.job[run], k]
            for seat, time, at, held, there in sweep.above(k, amount, np.maximum(room[:, k], 0), report, "reservation"):
                where = platform.nodes[nodes[at]]
                text = f"{who} {held} {name} of node {where} in {each.name}; expected {there} at most"
                report.add("reservation", case.workload.jobs.job[runs.job[run[seat]]], time, text)
    whole = np.array(each.nodes, np.int64)[list(each.whole)] if any(each.whole) else np.empty(0, np.int64)
    beside = ~mine[case.seat_run] & np.isin(case.seat_node, whole)
    begin, end = runs.start[case.seat_run], until[case.seat_run]
    for seat in report.each("reservation", beside & (begin < each.over) & (end > each.begin)):
        run, where = case.seat_run[seat], platform.nodes[case.seat_node[seat]]
        text = f"runs on node {where}, which is reserved as {each.name}"
        report.add("reservation", case.workload.jobs.job[runs.job[run]], runs.start[run], text)
