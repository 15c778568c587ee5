"""Submit a workload file to a queue on a fake pool, whose jobs end by themselves: `backfill submit --from`.

Each job begins at its submit at the earliest, counted from now on the clock of the queue, and ends after its run time.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from backfill.client.calling import ANSWER_S, REJECTED, UNREACHABLE, USAGE, Problem, Queue, token
from backfill.model.errors import BackfillError
from backfill.model.precedence import in_order
from backfill.model.units import NEVER, counted, span_text
from backfill.model.workload import SPREAD, Workload
from backfill.queue.schema import Facts
from backfill.queue.words import Unreadable
from backfill.system.bar import terminal_bar
from backfill.system.home import home
from backfill.traces.read import read

BATCH = 200  # requests sent at once
FULL_S = 0.5  # seconds between retries while the queue is full
SHOWN = 3  # most reasons of refusals that are printed
ALONG = {"source", "json", "quiet"}  # keys of options that can be combined with --from
NAMED = ("project", "site", "constraint", "partition", "qos", "reservation")  # columns that a request has as they are
Ask = Callable[[list[Facts]], list[Facts]]  # returns the answers to requests, in their order


def submit(options: Facts, words: Sequence[str]) -> int:
    """Queue the jobs of a file; return REJECTED if some were refused. Raises Problem and Unreadable."""
    if words:
        raise Unreadable("--from and a command cannot be combined")
    if others := sorted(options.keys() - ALONG):
        raise Unreadable(f"--from takes jobs as the file has them; expected no other option such as {others[0]}")
    queue = Queue(home())
    if queue.ask("ping").get("pool") != "fake":
        message = "--from needs a queue on a fake pool; this one starts processes"
        raise Problem(f"{message}. backfill serve --pool fake:SPEED serves such a queue", USAGE)
    try:
        workload = read(options["source"])
    except BackfillError as error:
        raise Problem(str(error), error.exit_code) from None
    quiet = bool(options.get("quiet"))
    for note in () if quiet else left_out(workload):
        print(f"backfill: {workload.name}: {note}", file=sys.stderr)
    now = round(queue.ask("queue", limit=0)["now_s"] * 1e6)
    with terminal_bar("jobs", len(workload)) as progress:
        shown = progress if sys.stderr.isatty() and not quiet else lambda done: None
        numbers, refused = feed(_persistently, workload, now, shown)
    first, last = min(numbers, default=0), max(numbers, default=0)
    if options.get("json"):
        print(json.dumps({"schema": 1, "queued": len(numbers), "first": first, "last": last, "refused": refused}))
    elif not quiet:
        over = span_text(int(np.ptp(workload.jobs.submit))) if len(workload) else "0 s"
        print(f"{counted(len(numbers), 'job')} of {workload.name} queued, arriving over {over}: {first} to {last}")
        for why, count in refused.most_common(SHOWN):
            print(f"refused: {counted(count, 'job')}: {why}")
    return REJECTED if refused else 0


def _persistently(requests: list[Facts]) -> list[Facts]:
    """Return the answers to requests, repeating them if the daemon ends meanwhile."""
    end = time.monotonic() + ANSWER_S
    while True:
        try:
            queue = Queue(home())
            try:
                return queue.all(requests)
            finally:
                queue.close()
        except (ConnectionError, TimeoutError):
            if time.monotonic() > end:
                raise Problem("the daemon does not answer; some of the jobs are queued", UNREACHABLE) from None
            time.sleep(0.02)


def left_out(workload: Workload) -> Iterator[str]:
    """Yield which fields of the workload's jobs a queue does not support."""
    jobs = workload.jobs
    for mask, what in (
        (jobs.deadline < NEVER, "deadlines, which bind in a queue"),
        (jobs.think > 0, "think times"),
        ((jobs.queue.codes >= 0) & (jobs.partition.codes < 0), "queues beside partitions"),
        (jobs.admin_priority != 0, "priorities of administrators"),
    ):
        if count := int(mask.sum()):
            yield f"left out: {what} ({counted(count, 'job')})"


def feed(
    ask: Ask, workload: Workload, now: int, progress: Callable[[int], None] = lambda done: None
) -> tuple[list[int], Counter[str]]:
    """Submit all jobs in the order of their submits. Returns their numbers, and the number of refusals by reason.

    now: calendar time of the queue at which the first job comes. A job that depends on others is sent once their
    numbers are known; one that depends on a refused job is refused.
    """
    jobs, names = workload.jobs, f"{token()}-"
    known: dict[int, int] = {}  # job number by row
    lost: set[int] = set()
    refused: Counter[str] = Counter()
    begin, batch = int(jobs.submit.min(initial=2**62)), list[tuple[int, Facts]]()

    def send() -> None:
        answers = _answered(ask, [request for _, request in batch])
        for (row, _), answer in zip(batch, answers, strict=True):
            if "error" in answer:
                refused[answer["error"]["message"]] += 1
                lost.add(row)
            else:
                known[row] = answer["id"]
        batch.clear()
        progress(len(known) + len(lost))

    for row in _in_order(workload):
        before = jobs.after[row].tolist()
        if len(batch) >= BATCH or any(one not in known and one not in lost for one in before):
            send()
        if lost.intersection(before):
            refused["it depends on a job that was refused"] += 1
            lost.add(row)
            continue
        asked = request(workload, row, now - begin)
        if before:
            asked["job"]["after"] = [["afterany", known[one]] for one in before]
        batch.append((row, asked | {"token": f"{names}{row}"}))
    send()
    return [*known.values()], refused


def _in_order(workload: Workload) -> list[int]:
    """Return the rows by submit; if a job would come before one that it depends on, in order of dependencies."""
    after, order = workload.jobs.after, np.argsort(workload.jobs.submit, kind="stable")
    place = np.argsort(order)
    later = place[after.items] >= np.repeat(place, np.diff(after.first))
    return in_order(after) if later.any() else [int(row) for row in order]


def _answered(ask: Ask, requests: list[Facts]) -> list[Facts]:
    """Return the answers to requests; those refused because the queue is full are sent again until it is not."""
    answers = ask(requests) if requests else []
    while full := [i for i, answer in enumerate(answers) if answer.get("error", {}).get("code") == "full"]:
        time.sleep(FULL_S)
        for i, answer in zip(full, ask([requests[i] for i in full]), strict=True):
            answers[i] = answer
    return answers


def request(workload: Workload, row: int, ahead: int) -> Facts:
    """Return the request to submit the job of a row, without its token. ahead: calendar time minus the log's time."""
    jobs = workload.jobs
    amounts = zip(workload.resources, jobs.demand[row].tolist(), strict=True)
    need = {name: amount for name, amount in amounts if amount or name == "cpus"}
    for item, count in jobs.licences.counts_of(row).items():
        need[workload.licences[item]] = count
    job: dict[str, Any] = {
        "need": need,
        "name": str(jobs.job[row])[:64],
        "walltime": max(int(jobs.walltime[row]), 1),
        "grace": 0,
        "begin": int(jobs.submit[row]) + ahead,
    }
    job |= {name: jobs[name][row] for name in NAMED if jobs[name][row]}
    if jobs.tasks[row] > 1:
        job |= {"tasks": int(jobs.tasks[row]), "spread": SPREAD[jobs.spread[row]]}
    if jobs.exclusive[row]:
        job["exclusive"] = True
    if jobs.priority[row]:
        job["priority"] = round(float(jobs.priority[row]))
    spec = {"argv": ["true"], "runtime": int(jobs.runtime[row])}
    return {"user": jobs.user[row], "group": jobs.group[row], "job": job, "spec": spec}
