"""The verbs that predict and explain: `eta`, `explain`, `slots`, and trials of submits and policies."""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backfill.client.calling import FAILED, STARTING, Problem, persistent
from backfill.client.options import ids_of, parse
from backfill.client.printing import first_of, goes_on, start_text, table
from backfill.model.names import printable
from backfill.model.units import clock_text, counted, local_text, more_text, size_text, time_text
from backfill.queue.parts import amounts_of, gpu_type_of
from backfill.queue.protocol import ESTIMATED, FEW
from backfill.queue.states import PENDING
from backfill.queue.words import Unreadable, asks_text, needs_text
from backfill.system.home import group_name, home, user_name

if TYPE_CHECKING:  # saves import time at run time
    from backfill.answers.estimates import Lead

Facts = dict[str, Any]
FIRST = 5  # jobs that went first that are listed
CAUSES = {  # why a reservation moved
    "given": "the policy gave it another one",
    "renewed": "the policy made a new plan",
    "moved-up": "resources were freed when {} ended",
    "moved": "it made way for another job",
    "overrun": "a job runs over its limit",
    "changed": "capacity or walltimes changed",
}
PASSED = {  # why a job went first, in the words of `simulate --explain`
    "elsewhere": "took nothing that it could have used",
    "in-time": "was to end before its reserved start",
    "backfill": "was backfilled: it left room for the reserved starts",
    "head": "was first in the policy's order",
    "reserved": "had a reserved start of its own",
    "moved-up": "had a reserved start of its own, which moved up",
    "fit": "fitted although this job did not",
    "gang": "all tasks of its gang could start together",
    "thread": "its thread's turn had come",
    "resumed": "was resumed",
}
FAR_S = 6 * 3600.0
FAR = "bounds more than 6 h ahead hold less often: 73 to 96 % did in simulated queues, the fewest where the queue grew"
START_S = 20.0  # seconds that a planner may take to start before its policy is replaced without a comparison
DROP_S = 3.0  # the same with --drop-promises
PATIENCE_S = 600.0  # seconds; an answer may have to wait for a policy to be compiled
KNOWN_S = 20.0  # seconds in which the planner should know a job that was submitted
HISTORY = {
    "user and name": "{} of the same user and name",
    "user": "{} of the same user",
    "all": "{} of all users",
    "none": "no ended jobs: its run time is guessed",
}
WHY_NOT = {
    "held": "held: no estimate before it is released",
    "never": "it waits for something that cannot happen",
    "blocked": "it waits for jobs that are held",
    "far": "too far ahead, or it waits for missing capacity",
}
WIDE = (
    f"a wide bound allows for jobs that run until their limits: fewer than {FEW} jobs, or users, say how long they run"
)
PAUSED = "would fit now, and waits for the queue, which is paused; next: backfill resume"
FAR_BUT_SURE = "its likely start is too far ahead to estimate"


def question(what: str, patience_s: float = PATIENCE_S, folder: str = "", **more: Any) -> Facts:
    """Return the answer to a question; a planner that is being started is waited for."""
    end = time.monotonic() + patience_s
    while True:
        try:
            return persistent(what, folder or home(), timeout=PATIENCE_S, **more)
        except Problem as problem:
            if problem.code != STARTING or time.monotonic() > end:
                raise
        time.sleep(0.1)


def estimates(folder: str, wanted: Sequence[int]) -> Facts:
    """Return the estimates of these jobs; if the planner does not know one of them yet, it is asked again.

    Raises Problem if one has no estimate.
    """
    end = time.monotonic() + KNOWN_S
    while True:
        answer = question("eta", folder=folder)
        rows = {row["id"]: row for row in answer["jobs"]}
        missing = next((number for number in wanted if number not in rows), None)
        if missing is None:
            return {**answer, "jobs": [rows[number] for number in wanted]}
        job = persistent("output", folder, ids=[missing])["job"]
        waits = job["state"] == PENDING
        if not waits or len(rows) >= ESTIMATED or time.monotonic() > end:
            expected = f"one of the first {ESTIMATED:,} that wait" if waits else "a pending one"
            raise Problem(f"job {job['label']} is {job['state']}; expected {expected}", FAILED)
        time.sleep(0.1)


def eta(words: Sequence[str]) -> int:
    """Print when pending jobs start."""
    options, left, _ = parse("eta", words)
    if options.get("accuracy"):
        if left:
            raise Unreadable(f"unexpected {left[0]!r}; --accuracy is about all jobs")
        return _accuracy(bool(options.get("json")))
    if "of_project" in options:
        return _eta_project(options, left)
    if left or "name" in options:
        answer = estimates(home(), persistent("find", home(), ids=ids_of(options, left))["ids"])
    else:
        answer = question("eta")
    if options.get("json"):
        print(json.dumps(answer))
        return 0
    if not answer["jobs"]:
        print("no job is pending")
        return 0
    print_estimates(answer)
    return 0


def print_estimates(answer: Facts) -> None:
    """Print the estimates of jobs, and how they were made."""
    now = round(answer["now_s"] * 1e6)
    pool = answer.get("pool", "")  # a batch system that the queue only watches, and that estimates starts itself
    lines = [["JOB", "NAME", pool.upper() or "GUARANTEED", "LIKELY", "90 %", "FROM"]]
    for row in answer["jobs"]:
        at = [start_text(row[name], now) for name in ("expected_s" if pool else "guaranteed_s", "median_s", "p90_s")]
        why = why_not(row) or _from(row)
        lines.append([row["label"], printable(row["name"])[:20], *at, why])
    if len(lines) > 1:
        table(lines, right=(0, 2, 3, 4))
    for row in answer["jobs"]:
        if row.get("misses_deadline"):
            print(f"job {row['label']} {deadline_text(row, now)}")
    print(method_text(answer))
    if any(row.get("wide") for row in answer["jobs"]):
        print(WIDE)
    if any(row["p90_s"] is not None and row["p90_s"] > answer["now_s"] + FAR_S for row in answer["jobs"]):
        print(FAR)


def _from(row: Facts) -> str:
    """Return from how many ended jobs an estimate was made."""
    if row.get("wide"):
        return f"{_ended(row['fewest_ended_jobs'])}: a wide bound"
    return HISTORY[row["history"]].format(counted(row["ended_jobs"], "ended job"))


def _ended(jobs: int) -> str:
    return counted(jobs, "ended job") if jobs else "no ended job"


def deadline_text(row: Facts, now: int) -> str:
    """Return how a job may miss its deadline. row: its estimate."""
    deadline = local_text(round(row["deadline_s"] * 1e6), now)
    which, start = "90 % bound of its start", row["p90_s"]
    if start is None:
        which, start = "guaranteed start", row["guaranteed_s"]
    return f"may miss its deadline, {deadline}: after the {which}, {start_text(start, now)}, its limit ends too late"


def _eta_project(options: Facts, left: Sequence[str]) -> int:
    """Print when the pending jobs of a project start, and when the last one ends."""
    if left or "name" in options:
        raise Unreadable("--project and jobs cannot be combined")
    answer = question("eta", project=options["of_project"])
    if options.get("json"):
        print(json.dumps(answer))
        return 0
    if answer["jobs"]:
        print_estimates(answer)
    else:
        print(method_text(answer))
    for line in departure_lines({**answer, **answer["departure"]}, answer["departure"]):
        print(line)
    return 0


def departure_lines(answer: Facts, likely: Facts | None) -> list[str]:
    """Return lines about a project's departure. found: with the policy's promise; likely: an estimate, or None."""
    now, lines = round(answer["now_s"] * 1e6), []
    policy = answer["policy"]
    if answer["promised_s"] is not None:
        whole = left_text(answer["left"])
        lines.append(f"promised departure: {start_text(answer['promised_s'], now)} (policy {policy}){whole}")
    elif answer["departs"]:
        when = "the queue is no longer paused" if answer.get("paused") else "jobs of the project may start"
        lines.append(f"policy {policy} promises the departure once {when}")
    if likely is not None and likely["median_s"] is None:
        lines.append(f"likely departure: unknown: {WHY_NOT[likely['why_not']]}")
    elif likely is not None:
        why = "" if answer["departs"] else f"; policy {policy} promises no departures"
        times = f"{start_text(likely['median_s'], now)}, 90 % {start_text(likely['p90_s'], now)}"
        lines.append(f"likely departure: {times}: an estimate, no promise{why}")
    return lines


def left_text(left: int) -> str:
    """Return the part of a promise's text about jobs that it does not cover yet."""
    if not left:
        return ""
    why = "that waits for others or is held" if left == 1 else "that wait for others or are held"
    return f", without {counted(left, 'job')} {why}"


def explain(words: Sequence[str]) -> int:
    """Print why a job does not run."""
    options, left, _ = parse("explain", words)
    if len(left) != 1:
        raise Unreadable("expected one job")
    answer = question("explain", ids=ids_of(options, left))
    if options.get("json"):
        print(json.dumps(answer))
        return 0
    for line in explained(answer):
        print(printable(line))
    return 0


def _instant(answer: Facts, seconds: float) -> str:
    """Return the text of an instant that is known, not rounded up as a start that is promised."""
    return local_text(round(seconds * 1e6), round(answer["now_s"] * 1e6))


def explained(answer: Facts) -> Iterator[str]:
    """Yield an explanation, line by line."""
    name = f"job {answer.get('label', answer['id'])}"
    if answer["reason"] == "Preempting":
        others = ", ".join(answer["behind"]) or "others"
        yield f"{name} is started as soon as what it needs is free: the policy has preempted {others}"
        return
    if answer["reason"] == "Preempted":
        by = f" for job {answer['for']}" if answer["for"] else ""
        yield f"{name} is being ended: the policy preempts it{by}; {goes_on(answer['keeps'])}"
        return
    if answer["reason"] == "Paused" and answer["state"] == "starting":  # the policy would start it
        yield f"{name} {PAUSED}"
        return
    if answer["state"] != "PENDING":
        state = "being started" if answer["state"] == "starting" else answer["state"]
        yield f"{name} is {state}: it waits for nothing"
        return
    now = round(answer["now_s"] * 1e6)

    def at(seconds: float) -> str:
        return start_text(seconds, now)

    if answer.get("at_once"):
        yield f"policy {answer['policy']} would start {name} now; {answer['pool']} has not"
    elif "lacks" not in answer:
        yield from _kept_back(answer, name, at)
    if "lacks" not in answer:
        yield from _deadline(answer, now)
        yield from _expected(answer, at)
        return
    mine = next((each for each in answer["reservations"] if each["own"] and each["begin_s"] > answer["now_s"]), None)
    if mine is not None:
        yield f"{name} waits for reservation {mine['reservation']}, which begins {_instant(answer, mine['begin_s'])}"
        return
    yield from _lacking(answer, name)
    if answer["lacks"]:
        yield from _reserved(answer, at)
        yield from _nodes(answer, at)
    holders = answer["holders"]["first"] if answer["lacks"] else []
    for place, one in enumerate(holders):
        held = _held(answer, one["held"])
        front = "  held by " if place == 0 else "          "
        until = f"until {at(one['latest_end_s'])} at the latest, likely {at(one['likely_s'])}"
        yield f"{front}{one['label']} {one['name'][:20]}: {held} {until}"
    if answer["holders"]["count"] > len(holders) and holders:
        yield f"          and {more_text(answer['holders']['count'] - len(holders))}"
    kept_by: Facts = {}
    if not answer["lacks"]:
        behind, then = answer["behind"], [each for each in answer["reservations"] if each["begin_s"] > answer["now_s"]]
        kept_by = answer.get("kept_by") or {"count": 0, "first": []}
        if answer["reason"] == "Paused":
            yield f"{name} {PAUSED}"
        elif behind is None and kept_by["count"]:
            yield f"{name} would fit now, and waits behind jobs {_labels(kept_by)}"
        elif behind is None and then:
            reservation = f"reservation {then[0]['reservation']}, which begins {_instant(answer, then[0]['begin_s'])}"
            yield f"{name} would fit now, and might run into {reservation}"
        elif behind is None:
            yield f"{name} would fit now; policy {answer['policy']} keeps it behind earlier jobs"
        else:
            reserved = f", whose reserved start is {at(behind['reserved_s'])}" if behind["reserved_s"] else ""
            yield f"{name} would fit now, and waits behind job {behind['label']} {behind['name'][:20]}{reserved}"
        yield from _nodes(answer, at)
    if (before := answer.get("ahead")) and before["count"] and not (kept_by and kept_by["count"] == before["count"]):
        jobs = "job" if before["count"] == 1 else "jobs"
        yield f"  ahead of it in the order of policy {answer['policy']}: {jobs} {_labels(before)}"
    yield from _preempted(answer)
    yield from _reservation(answer, at)
    yield from _deadline(answer, now)
    yield from _expected(answer, at)
    yield from _overtaken(answer, at)
    yield from _would_help(answer, at)
    yield from _by_history(answer, at)


def _lacking(answer: Facts, name: str) -> Iterator[str]:
    """Yield what the job lacks."""
    nodes = answer.get("nodes")
    apart = False  # whether the number of tasks with room was printed
    for lack in answer["lacks"]:
        resource, kind = lack["resource"], lack.get("kind", "resource")
        needs, free, capacity = (_amount(resource, lack[key]) for key in ("needs", "free", "capacity"))
        if kind == "limit":
            limit, _, what = resource.partition(": ")
            yield f"{name} waits for limit {limit} ({what}): it needs {needs}, left are {free} of {capacity}"
        elif kind == "licence" or nodes is None:
            yield f"{name} waits for {resource}: it needs {needs}, free are {free} of {capacity}"
        elif nodes["whole"] or (kind == "scattered" and not nodes["alone"]):
            if not apart:
                asked = counted(nodes["tasks"], "whole node" if nodes["whole"] else "task")
                few = "has" if nodes["have_room"] == 1 else "have"
                yield f"{name} waits for room: {nodes['have_room']:,} of its {asked} {few} room now"
            apart = True
        elif kind == "scattered":
            most = _amount(resource, lack["on_one"])
            yield f"{name} waits for {resource} on one node: it needs {needs}, the most that is free on one is {most}"
        else:
            where = "on the nodes that it may use"
            yield f"{name} waits for {resource}: it needs {needs}, free are {free} of {capacity} {where}"


def _nodes(answer: Facts, at: Callable[[float], str]) -> Iterator[str]:
    """Yield the nodes that the job may use, and which of these are out of service or full."""
    nodes = answer.get("nodes")
    if nodes is None:
        return
    if nodes["may_use"] < nodes["of"]:
        bound = ", ".join(f"{name} {text}" for name, text in nodes["bound"].items())
        yield f"  it may run on {nodes['may_use']:,} of {nodes['of']:,} nodes" + (f" ({bound})" if bound else "")
    if nodes["large_enough"] < nodes["may_use"]:
        what = "it" if nodes["alone"] else "one of its tasks"
        yield f"  {nodes['large_enough']:,} of these are large enough for {what}"
    if nodes["have_room"] == nodes["tasks"]:
        return
    for kind, title in (("shut", "out of service"), ("reserved", "reserved"), ("open", "room now")):
        listed = nodes[kind]
        if listed["count"]:
            names = [one if kind != "open" else f"{one[0]} ({one[1]})" if one[1] > 1 else one[0]
                     for one in listed["first"]]  # fmt: skip
            yield f"  {title}: {', '.join(names)}{_others(listed)}"
    for one in nodes["full"]["first"]:
        jobs = first_of([other["label"] for other in one["jobs"]], FIRST)
        until = "" if one["opens_s"] is None else f" until {at(one['opens_s'])} at the latest"
        yield f"  {one['node']} is full{until}" + (f": {jobs}" if jobs else "")
    if rest := nodes["full"]["count"] - len(nodes["full"]["first"]):
        yield f"  and {rest:,} more nodes are full"


def _reserved(answer: Facts, at: Callable[[float], str]) -> Iterator[str]:
    """Yield the reservations of others that are active now."""
    for each in answer["reservations"]:
        if not each["own"] and each["begin_s"] <= answer["now_s"]:
            until = _instant(answer, each["until_s"])
            yield f"  reservation {each['reservation']} has {', '.join(each['nodes'])} until {until}"


def _labels(jobs: Facts) -> str:
    """Return `2, 3, 4, 5, 6 and 12 more`."""
    return ", ".join(one["label"] for one in jobs["first"]) + _others(jobs)


def _others(jobs: Facts) -> str:
    rest = jobs["count"] - len(jobs["first"])
    return f" and {rest:,} more" if rest else ""


def _held(answer: Facts, held: Facts) -> str:
    """Return what a job holds of what another one lacks."""
    limits = [lack["resource"] for lack in answer["lacks"] if lack.get("kind") == "limit"]
    texts = [f"{amount} of limit {name.partition(': ')[0]}" for name, amount in held.items() if name in limits]
    others = {name: amount for name, amount in held.items() if name not in limits}
    if others:
        texts.insert(0, needs_text({"cpus": 0, **others}).removeprefix("0 cpus, "))
    return ", ".join(texts)


NATIVE = {  # reasons given by the queue, not the batch system, why a job of a batch system may not start
    "NotAdopted": "only {pool} starts it; next: backfill pool adopt",
    "BeforeRestart": "it was submitted before {pool} was restarted, and may have run since; next: backfill pool adopt",
    "ReqNodes": "its user has named its nodes, so it is left to {pool}",
    "ExcNodes": "its user has excluded nodes, so it is left to {pool}",
    "NodeRange": "it asks for a range of nodes, so it is left to {pool}",
    "ArrayLimit": "its array limits how many tasks run at once, so it is left to {pool}",
    "HetJob": "it has parts with different requests, so it is left to {pool}",
    "Requirements": "its requirements do not hold on every node that has room for it, so it is left to {pool}",
    "ParallelUniverse": "it is of the parallel universe, so it is left to {pool}",
    "Uncertain": "{pool} has forgotten that it was started, so it may have run; an operator decides",
    "LaunchFailed": "{pool} has not started it in 20 attempts; what it waited for: backfill show {label}",
}


def _kept_back(answer: Facts, name: str, at: Callable[[float], str]) -> Iterator[str]:
    """Yield why a job has not entered the policy's queue yet."""
    if answer.get("never"):
        yield f"{name} can never start on this platform: {answer['never']}"
        if "pool" in answer:  # the batch system decides that
            pool = answer["pool"]
            yield f"  as far as the queue knows the nodes of {pool}; {pool} may start it all the same"
            return
        yield f"next: backfill edit {answer['label']}, or backfill cancel {answer['label']}"
        return
    if answer["held"] and "pool" in answer:
        why = NATIVE.get(answer["held"], "{pool} says {held}")
        yield f"{name} may not start: {why.format(**answer)}"
        return
    if answer["held"]:
        hint = f"next: backfill release {answer['label']}"
        why = {
            "LaunchFailed": "it could not be launched three times in a row",
            "StartsDeclined": "the policy started it 20 times although it did not fit; see daemon.log",
        }.get(answer["held"], "it is held")
        yield f"{name} waits to be released: {why}"
        yield hint
        return
    if answer["reason"] == "BeginTime":
        yield f"{name} waits for its begin time, {_instant(answer, answer['begin_s'])}"
    elif answer["reason"] == "JobArrayTaskLimit":
        those = answer.get("throttled_by", {"count": 0})
        now = f", now {_labels(those)}" if those["count"] else ""
        yield f"{name} waits for other tasks of its array: {answer['throttle']} may run at once{now}"
    elif answer["reason"] == "Planner":
        yield f"{name} waits until the policy is started"
    elif answer["after"]:
        yield f"{name} waits for other jobs"
    else:
        yield f"{name} waits: {answer['reason']}"
    for one in answer["after"]:
        if one["tasks"] is None:
            yield f"  {one['kind']} {one['label']}, which is {one['state']}" + (" and held" if one["held"] else "")
        else:
            left = f"of whose tasks {one['tasks']:,} {'has' if one['tasks'] == 1 else 'have'} not ended"
            yield f"  {one['kind']} {one['label']}, {left}" + (", and some are held" if one["held"] else "")


def _expected(answer: Facts, at: Callable[[float], str]) -> Iterator[str]:
    """Yield the start that a watched batch system expects."""
    if "pool" in answer and answer["expected_s"] is not None:
        yield f"  {answer['pool']} expects it to start {at(answer['expected_s'])}"


def _reservation(answer: Facts, at: Callable[[float], str]) -> Iterator[str]:
    if answer["reserved_s"] is None:
        if answer["by_walltimes_s"] is not None:
            text = f"  no start is promised by policy {answer['policy']}"
            yield f"{text}; if all jobs ran until their limits it would start {at(answer['by_walltimes_s'])}"
        return
    if not answer["binds"]:
        yield f"  planned for {at(answer['reserved_s'])}, which policy {answer['policy']} does not promise"
        return
    first = answer["promise_s"]
    moved = f" (at first {at(first)})" if first is not None and first != answer["reserved_s"] else ""
    yield f"  reserved for {at(answer['reserved_s'])}{moved}: it starts then at the latest, unless the machine stops"
    for before, move in pairwise(answer["moves"]):
        gone = ", ".join(str(number) for number in move["ended"])
        why = f"made way for job {move['by']}" if move["by"] else CAUSES[move["cause"]].format(gone or "others")
        yield f"    {at(move['t_s'])}  from {at(before['start_s'])} to {at(move['start_s'])}: {why}"


def _deadline(answer: Facts, now: int) -> Iterator[str]:
    """Yield whether the job may miss its deadline."""
    row = answer.get("estimate")
    if row and row["misses_deadline"]:
        yield f"  it {deadline_text(row, now)}"


def _preempted(answer: Facts) -> Iterator[str]:
    if answer["preemptions"]:
        times = "once" if answer["preemptions"] == 1 else f"{answer['preemptions']} times, the last time"
        by = f" for job {answer['preempted_for']}" if answer["preempted_for"] else ""
        behind = f", with {time_text(round(answer['done_s'] * 1e6))} of its limit behind it" if answer["keeps"] else ""
        yield f"  it was preempted {times}{by}; {goes_on(answer['keeps'])}{behind}"


def _overtaken(answer: Facts, at: Callable[[float], str]) -> Iterator[str]:
    jobs = answer["went_first"]
    if jobs:
        yield f"  {len(jobs)} job{'s were' if len(jobs) > 1 else ' was'} submitted later and started first"
    for one in jobs[:FIRST]:
        yield f"    {at(one['start_s'])}  job {one['id']}: {PASSED[one['why']]}"


def _by_history(answer: Facts, at: Callable[[float], str]) -> Iterator[str]:
    """Yield what similar jobs used of their walltimes."""
    known = answer["by_history"]
    if known is None:
        return
    yield (
        f"of {known['jobs']} ended jobs of this user and name nine in ten used at most {known['used']:.0%} of their "
        f"limit, none more than {known['most']:.0%}"
    )
    if known["walltime_s"] is None:
        return
    when = "would not start much earlier"
    if known["start_s"] is not None:
        when = "would start now" if known["now"] else f"would start {at(known['start_s'])} at the limits of all jobs"
    change = f"edit --time {option_time(known['walltime_s'])} {answer['label']}"
    yield f"  {change:<40} {when}"


def _would_help(answer: Facts, at: Callable[[float], str]) -> Iterator[str]:
    if not answer["would_help"]:
        others = ", other nodes" if "nodes" in answer else ""
        yield f"what would help: less time, fewer cpus{others} and the end of one of these jobs make no difference"
        return
    yield "what would help"
    for change in answer["would_help"]:
        if "walltime_s" in change:
            what = f"edit --time {option_time(change['walltime_s'])} {answer['label']}"
        elif "cancel" in change:
            what = f"cancel {change['label']}"
        else:
            what = change_around(change) or f"submitted again {_changed(change)}"
        when = "would start now" if change["now"] else f"would start {at(change['start_s'])} at the limits of all jobs"
        yield f"  {what:<40} {when}"


def change_around(change: Facts) -> str:
    """Return a change of the machine that would help a job, in words; empty for a change of the job."""
    if "node" in change:
        return f"node {change['node']} in service again"
    if "licence" in change:
        return f"all {change['copies']} copies of {change['licence']} for this queue"
    return ""


def _changed(change: Facts) -> str:
    """Return options of submit, such as `with --ntasks 2` or `without --constraint`."""
    if "resource" in change:
        return f"with {_option(change['resource'], change['amount'])}"
    if "tasks" in change:
        return f"with --ntasks {change['tasks']}"
    if "spread" in change:
        return "with tasks on any nodes"
    name, text = next((name, change[name]) for name in ("partition", "constraint", "site") if name in change)
    return f"with --{name} {text}" if text else f"without {'its site' if name == 'site' else f'--{name}'}"


def slots(words: Sequence[str]) -> int:
    """Print what fits now, and for how long."""
    options, left, _ = parse("slots", words)
    if left:
        raise Unreadable(f"unexpected {left[0]!r}")
    asked: Facts = {"need": amounts_of(options), **gpu_type_of(options)}
    answer = question("slots", user=user_name(os.getuid()), group=group_name(os.getgid()), **asked)
    least = options.get("walltime", 0) / 1e6
    answer["slots"] = [one for one in answer["slots"] if one["for_s"] is None or one["for_s"] >= least]
    if options.get("json"):
        print(json.dumps(answer))
        return 0
    span = f" for {time_text(options['walltime'])}" if least else ""
    for line in offered(answer, span):
        print(printable(line))
    return 0


def offered(answer: Facts, span: str = "") -> Iterator[str]:
    """Yield what fits now, line by line. span: text of the least duration that was requested."""
    beside = needs_text({"cpus": 0, **answer["need"]}).removeprefix("0 cpus").removeprefix(", ")
    among, last = "nodes" in answer, ("", "")
    for one in answer["slots"] if among else sorted(answer["slots"], key=lambda one: -one["cpus"]):
        end = "without end" if one["for_s"] is None else f"for {time_text(one['for_s'] * 10**6)}"
        why = f"  (then job {one['until']} starts)" if one["until"] else ""
        why = f"  (then reservation {one['reservation']} begins)" if one["reservation"] else why
        if not among:
            with_them = f", {beside}" if beside else ""
            yield f"{counted(one['cpus'], 'cpu')}{with_them} {end}{why}"
            continue
        where = (one["partition"], one["nodes"])
        if where != last:
            part = f"partition {one['partition']}: " if one["partition"] else ""
            asked = f"  --constraint '{one['constraint']}'" if one["constraint"] else ""
            yield f"{part}{one['nodes']}{asked}"
        last = where
        yield f"  {'on one node' if one['on_one'] else 'on any nodes':<13}{counted(one['tasks'], 'task')} {end}{why}"
    if not answer["slots"]:
        yield f"nothing fits now{f' beside {beside}' if beside else ''}{span}; next: backfill submit --test-only"
        for name, _, count in (limit.partition(": ") for limit in answer.get("limits", ())):
            yield f"  limit {name} ({count}) leaves nothing"
    free = [f"{_amount(name, amount)} of {_amount(name, answer['capacity'][name])} {name}" for name, amount in
            answer["free"].items() if answer["capacity"][name]]  # fmt: skip
    if among:
        shared = "".join(f", the job as a whole {name} {count}" for name, count in answer["per_job"].items() if count)
        yield f"each task has {needs_text(answer['per_task'])}{shared}"
        if answer["shut"]["count"]:
            yield f"out of service, or in part: {answer['shut']['names']}"
        if answer["untried"]:
            yield f"not tried, since time ran out: {'; '.join(answer['untried'])}"
    on_nodes = f", on {answer['nodes']:,} nodes" if among else ""
    yield f"free: {', '.join(free)}{on_nodes}. policy {answer['policy']}"


def test(request: Facts, options: Facts) -> int:
    """Print when a job would start if this request were submitted; nothing is stored."""
    answer = question("test", **request)
    if options.get("json"):
        print(json.dumps({"schema": 1, **answer}))
        return 0
    for line in tested(answer):
        print(line)
    return 0


def tested(answer: Facts) -> Iterator[str]:
    """Yield when the jobs of a submit would start, line by line."""
    now = round(answer["now_s"] * 1e6)
    jobs = answer["jobs"]
    kind = f"array of {len(jobs):,} jobs" if answer["array"] else "job"
    yield f"{kind}: {asks_text(answer)}, limit {time_text(answer['walltime'])}"
    if answer["at_once"] == len(jobs):
        yield "would start now" if len(jobs) == 1 else "all would start now"
    elif answer["at_once"]:
        yield f"{answer['at_once']:,} would start now, the last one {_when(jobs[-1], now)}"
    elif len(jobs) > 1:
        yield f"the first would start {_when(jobs[0], now)}; the last {_when(jobs[-1], now)}"
    else:
        yield f"would start {_when(jobs[0], now)}"
    late = [one for one in jobs if one.get("misses_deadline")]
    if late:
        yield f"{'it' if len(jobs) == 1 else f'{len(late):,} of them'} {deadline_text(late[-1], now)}"
    for one in answer["delayed"][:FIRST]:
        before, after = start_text(one["before_s"], now), start_text(one["after_s"], now)
        yield f"job {one['label']} would be delayed from {before} to {after}"
    if len(answer["delayed"]) > FIRST:
        yield f"and {more_text(len(answer['delayed']) - FIRST)}"


def why_not(row: Facts) -> str:
    """Return why the likely start of a job is not known; empty if it is known."""
    if row["why_not"] == "far" and row["guaranteed_s"] is not None:
        return FAR_BUT_SURE
    return WHY_NOT.get(row["why_not"], "")


def _when(row: Facts, now: int) -> str:
    bound = f"by {start_text(row['guaranteed_s'], now)} (guaranteed)" if row["guaranteed_s"] is not None else ""
    if row["median_s"] is None:
        return f"{bound}; {why_not(row)}" if bound else f"at an unknown time: {why_not(row)}"
    few = f" (wide: from {_ended(row['fewest_ended_jobs'])})" if row.get("wide") else ""
    likely = f"likely {start_text(row['median_s'], now)}, 90 % {start_text(row['p90_s'], now)}{few}"
    return f"{bound}, {likely}" if bound else likely


def switch(options: Facts) -> int:
    """Switch to another policy, or print what that would change."""
    policy, dry, begun = _from_here(options["policy"]), bool(options.get("dry")), os.path.exists(f"{home()}/store.db")
    try:
        patience_s = PATIENCE_S if dry else DROP_S if options.get("drop") else START_S
        answer = question("switch", policy=policy, patience_s=patience_s)
    except Problem as problem:
        if problem.kind not in ("starting", "question") or dry:
            raise
        if problem.kind == "question" and not options.get("drop"):
            message = f"{problem}; nothing was changed; --drop-promises lets {policy} take over untried"
            raise Problem(message, FAILED) from None
        return _switch_untried(policy, options, problem)
    fall, stays = answer["fall"], not dry and bool(answer["fall"]) and not options.get("drop")
    if options.get("json"):
        print(json.dumps({**answer, "switched": not dry and not stays}))
    elif dry or stays:
        _say_switch(answer)
    if stays:
        message = f"{answer['to']} would not keep the starts that were promised to {first_of(fall, FIRST)}"
        raise Problem(f"{message}; nothing was changed; --drop-promises lets it take over", FAILED)
    if not dry:
        persistent("policy", home(), policy=policy)
        if not options.get("json"):
            what = f"takes over from {answer['from']}" if begun else "decides"
            print(f"policy {answer['to']} {what}, until config.toml names another one")
    return 0


def _switch_untried(policy: str, options: Facts, problem: Problem) -> int:
    """Switch to another policy without a comparison, since the planner does not answer or the trial failed."""
    answer = persistent("policy", home(), policy=policy)
    if options.get("json"):
        print(json.dumps({"schema": 1, "to": answer["policy"], "switched": True, "compared": False}))
    else:
        why = "the planner did not answer" if problem.kind == "starting" else f"the trial failed ({problem})"
        print(f"policy {answer['policy']} takes over, until config.toml names another one; {why}, so")
        print("its effect on promised starts is not known")
    return 0


def _from_here(policy: str) -> str:
    """Return a policy with the path of its file made absolute, since the daemon runs in another folder."""
    path, dot, more = policy.partition(".py")
    return f"{os.path.abspath(path)}{dot}{more}" if dot and more[:1] in ("", ":") else policy


def _say_switch(answer: Facts) -> None:
    now = round(answer["now_s"] * 1e6)
    lines = [["JOB", "NAME", "GUARANTEED", "LIKELY", "90 %", "THEN", "LIKELY", "90 %", ""]]
    for row in answer["jobs"]:
        old, new = row["before"], row["after"]
        times = [start_text(each[name], now) for each in (old, new) for name in ("guaranteed_s", "median_s", "p90_s")]
        lines.append([row["label"], printable(row["name"])[:20], *times, "" if row["kept"] else "promise broken"])
    if len(lines) > 1:
        table(lines, right=(0, 2, 3, 4, 5, 6, 7))
    promises = f"broken promises: {len(answer['fall'])}" if answer["fall"] else "every promise is kept"
    changes = f"jobs that likely start earlier: {answer['earlier']}, later: {answer['later']}"
    print(f"{answer['to']} in place of {answer['from']}: {changes}; {promises}")


def _option(resource: str, amount: int) -> str:
    names = {"cpus": "--cpus-per-task", "memory": "--mem", "gpus": "--gpus"}
    if resource not in names:
        return f"--licenses {resource}:{amount}"
    return f"{names[resource]} {f'{amount >> 20}M' if resource == 'memory' else amount}"


def option_time(seconds: float) -> str:
    """Return a walltime in the form that `--time` accepts: whole minutes as H:M:S."""
    minutes = round(seconds) // 60
    return f"{minutes // 60}:{minutes % 60:02}:00"


def _amount(resource: str, amount: int) -> str:
    return (size_text(amount) if amount else "0") if resource == "memory" else str(amount)


def method_text(answer: Facts) -> str:
    """Return how estimates were made."""
    jobs = "new jobs that arrive as in the recent past" if answer["arrivals"] else "no new jobs"
    futures = f"{answer['futures']} futures of policy {answer['policy']} with {jobs}"
    promise = "" if answer["binds"] else f"; {answer['policy']} promises no starts"
    if answer["widened"] > 1:
        promise += f"; bounds are {answer['widened']:.2g} times as far, as {answer['held']:.0%} of the last ones held"
    age = f", {time_text(round(answer['age_s'] * 1e6))} old" if "age_s" in answer else ""
    return f"from {futures}{age}{promise}"


def accuracy_of(folder: str) -> Facts:
    """Return how accurate the estimates of a queue were, as `eta --accuracy --json` prints it. Raises Problem."""
    from backfill.answers.estimates import KINDS, accuracy, foretold, kept
    from backfill.queue.store import Store, StoreError

    path = Path(folder) / "store.db"
    if not path.exists():
        raise Problem(f"{path}: no queue is recorded there", FAILED)
    try:
        store = Store(path, readonly=True)
        shown, promises = kept(store.events(kinds=KINDS))
        native, pool = accuracy(foretold(store.events(kinds=KINDS))), str(store.clock().get("pool", ""))
        store.close()
    except StoreError as error:
        raise Problem(str(error), FAILED) from None
    more = {"pool": pool, "pool_leads": native} if native else {}
    return {"schema": 1, "promises": promises, "leads": accuracy(shown), **more}


def _accuracy(as_json: bool) -> int:
    found = accuracy_of(home())
    if as_json:
        print(json.dumps(found))
        return 0
    promises, groups, native = found["promises"], found["leads"], found.get("pool_leads")
    for errors, what in ((promises, "starts"), (promises["departures"], "departures of projects")):
        total = errors["kept"] + sum(errors["slips"].values())
        if total or (errors is promises and not native):
            slips = ", ".join(f"{count} {printable(cause)}" for cause, count in errors["slips"].items())
            print(f"{errors['kept']} of {total} promised {what} kept" + (f"; later: {slips}" if slips else ""))
    if not groups:
        print("no job that `backfill eta` has estimated has started yet")
    else:
        _print_leads(groups, "TOLD BEFORE")
    if native:
        _print_leads(native, f"{found['pool'].upper()} BEFORE", bounded=False)
    return 0


def _print_leads(groups: "Sequence[Lead]", head: str, bounded: bool = True) -> None:
    """Print the accuracy of estimates. bounded: whether they have 90 % bounds."""
    lines = [[head, "ESTIMATES", "WITHIN 90 %", "MEDIAN ERROR", "EARLY", "LATE"]]
    for group in groups:
        shares = [f"{share:.0%}" for share in (group["within_90"], group["early"], group["late"])]
        error_text = clock_text(round(group["median_error_s"] * 1e6))
        lines.append([group["lead"], str(group["estimates"]), shares[0] if bounded else "-", error_text, *shares[1:]])
    table(lines, right=range(1, 6))
