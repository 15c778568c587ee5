"""Whatever an explanation says of a wait holds: counted anew, slowly, from the schedule and the journal."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from backfill.analysis.explain import Rules, explain
from backfill.core.journal import PREEMPT, RELEASE, RESERVE, START, TICK, WITHDRAW
from backfill.model.schedule import NO_TIME, STATES
from backfill.model.units import NEVER
from backfill.report.explained import record_of
from backfill.worlds.journal import promises_of
from backfill.worlds.simulated import simulate
from tests.compiled import asked, policy
from tests.reference.limits import held_back, with_accounts
from tests.reference.machine import Machine
from tests.reference.placement import held, may_use, minus, node_slots, place, plus, whole
from tests.reference.workloads import (
    cases_with_events,
    chained_cases,
    general_cases,
    limited_cases,
    pool_cases,
    rich_pool_cases,
)

POLICIES = ["fcfs", "easy", "easy-lxf", "k-reservations:k=3", "conservative", "ibb", "preemptive"]
FEWER = settings(max_examples=max(settings().max_examples // 2, 1))  # all jobs of a case are explained
some_policies = pytest.mark.parametrize("name", POLICIES)


class Slow:
    """The same questions, answered by looking at everything anew each time."""

    def __init__(self, case, events, name, **options):
        self.case, self.events = case, events
        self.jobs, self.platform = with_accounts(case.jobs, case.platform)
        workload, platform, asks = asked(case.jobs, case.platform, events=events, **options)
        chosen, params = policy(name)
        done = simulate(workload, platform, chosen, params, asks, journal=True)
        self.journal, self.schedule, self.kept = done.journal, done.schedule, chosen.keeps
        seen = np.array([job.estimate for job in case.jobs], np.int64)
        bound = None if asks.events is None else asks.events.bind(workload, platform)
        self.record = record_of(
            workload, platform, done.schedule, seen, bound, place=chosen.place, overhead=chosen.overhead(params)
        )
        self.promises = promises_of(done.journal, workload.jobs.submit, chosen.keeps)
        self.queue = sorted(range(len(case.jobs)), key=lambda row: (case.jobs[row].submit, row))
        self.rules = Rules(name, in_order=name == "fcfs")
        runs = done.schedule.all_runs
        columns = (runs.job, runs.start, runs.end, runs.reason)
        self.runs = [
            (*each, [*zip(pairs[::2], pairs[1::2], strict=True)])
            for *each, pairs in zip(
                *(column.tolist() for column in columns), (runs.held[i].tolist() for i in range(len(runs))), strict=True
            )
        ]

    def explain(self, row):
        return explain(self.record, row, self.rules, self.promises)

    def there(self, t):
        """The capacity at an instant, its events included."""
        machine = Machine(self.platform)
        for event in sorted(self.events, key=lambda event: event.time):
            if event.time > t:
                break
            if event.kind == "capacity":
                for slot in machine.slots(event):
                    machine.base[slot] = event.value
            elif event.kind == "down":
                machine.down |= {*event.nodes}
            elif event.kind == "up":
                machine.down -= {*event.nodes}
            elif event.kind == "window":
                machine.windows.append(event)
        return machine.room(t)

    def free(self, t, without=None):
        room = self.there(t)
        for run in self.runs:
            job, start, end, _, pairs = run
            if start <= t < end and run is not without:
                room = minus(room, held(self.platform, self.jobs[job], pairs))
        return room

    def fits(self, row, room):
        return place(self.platform, self.jobs[row], room) is not None

    def waiting(self, row, t):
        """Return whether a job waits after the starts of an instant."""
        return any(begin <= t < until for begin, until in self.stretches(row))

    def stretches(self, row):
        """From when on a job waited until it started, was cancelled, or for good."""
        runs, state = [run for run in self.runs if run[0] == row], self.state(row)
        begins = [int(self.schedule.eligible[row]), *(end for _, _, end, _, _ in runs)]
        ends = [start for _, start, *_ in runs]
        if state in ("PENDING", "CANCELLED") and (state == "PENDING" or not runs):
            ends.append(self.over(row))
            if not runs:
                begins = [min(ends[0], max(self.jobs[row].submit, *map(self.over, (*self.jobs[row].after, -1))))]
        return [*zip(begins, ends, strict=False)]

    def left_of(self, account, needed, row, t):
        """Return the remainder at t of a limit of which a job needs this amount."""
        number, what = int(account.removeprefix("limit")[0]), account.partition(": ")[2]
        limit, amount = self.platform.limits[number], (lambda job: job.procs) if "cpus" in what else lambda job: 1
        whose = limit.account(self.jobs[row])
        assert what.removesuffix(f" of u{whose}") in ("running_jobs", "running cpus")
        assert needed == amount(self.jobs[row])
        running = [self.jobs[job] for job, start, end, *_ in self.runs if start <= t < end]
        most = limit.cpus if "cpus" in what else limit.running_jobs
        return most - sum(amount(job) for job in running if limit.account(job) == whose)

    def state(self, row):
        return STATES[self.schedule.state[row]]

    def over(self, row):
        """Return when the dependants of a job need not wait for it any longer; row -1 is no job."""
        if row < 0:
            return -NEVER
        if self.state(row) == "PENDING":
            return self.record.last
        if self.schedule.ran[row]:
            return int(self.schedule.end[row])
        cancels = [event.time for event in self.events if event.kind == "cancel" and event.job == row]
        return min(cancels, default=NEVER)  # never, after one that was rejected

    def promised(self, t):
        """Row -> the start that it is promised after the last pass up to an instant."""
        found, now = {}, None
        for code, a, b, *_ in self.journal.tolist():
            if code == TICK:
                if a > t:
                    break
                if a != now and not self.kept:
                    found = {}
                now = a
            elif code == RESERVE:
                found[self.queue[a]] = b
            elif code in (WITHDRAW, RELEASE, START, PREEMPT):
                found.pop(self.queue[a], None)
        return found

    def instants(self, begin, until):
        """The instants of a stretch at which anything may change."""
        times = {t for _, start, end, *_ in self.runs for t in (start, end)}
        times |= {t for e in self.events for t in (e.time, int(e.value) if e.kind == "window" else e.time, e.until)}
        times |= {a for code, a, *_ in self.journal.tolist() if code == TICK}
        return sorted({begin, until - 1, *(t for t in times if begin <= t < until)})


def check(case, events, name, **options):
    slow = Slow(case, events, name, **options)
    for row in range(len(case.jobs)):
        found = slow.explain(row)
        check_cover(slow, row, found)
        for span in found.spans:
            for t in slow.instants(span.begin, span.until):
                check_span(slow, row, span, t)
        check_passed(slow, row, found)
        json.dumps(found.as_dict(), allow_nan=False)
        assert max(map(len, found.lines)) <= 80
        assert len(found.lines) <= 90


def check_cover(slow, row, found):
    """The spans are the wait: from when the job was eligible to its start, and again to each further start."""
    stretches = [(begin, until) for begin, until in slow.stretches(row) if begin < until]
    spans = [[span.begin, span.until] for span in found.spans]
    assert all(begin < until for begin, until in spans)
    joined = [*spans[:1]]
    for (_, until), (begin, end) in pairwise(spans):
        if begin == until:
            joined[-1] = [joined[-1][0], end]
        else:
            joined.append([begin, end])
    assert [tuple(each) for each in joined] == merged(stretches)
    assert sum(cause.time for cause in found.causes) == found.waited


def merged(stretches):
    """Two waits without a run of any length between them are one."""
    found = []
    for begin, until in stretches:
        if found and found[-1][1] == begin:
            found[-1] = (found[-1][0], until)
        else:
            found.append((begin, until))
    return found


def check_span(slow, row, span, t):
    job, free, platform = slow.jobs[row], slow.free(t), slow.platform
    nodes = [n for n in range(len(platform.nodes)) if may_use(platform, n, job)]
    assert slow.fits(row, free) == (not span.lacks), (span, t)
    for lack in span.lacks:
        if lack.kind == "limit":
            there = slow.left_of(lack.name, lack.needed, row, t)
            assert there < lack.needed
        elif lack.kind == "licence":
            licence = int(lack.name.removeprefix("licence"))
            there = free[len(platform.nodes) * len(platform.nodes[0].capacity) + licence]
            assert there < lack.needed == job.licences.count(licence)
        else:
            k = slow.record.asks.platform.resources.index(lack.name)
            there = sum(free[node_slots(platform, n)[k]] for n in nodes)
            assert lack.needed == job.tasks * job.demand[k]
            assert (there < lack.needed) == (lack.kind == "resource")
        assert lack.free_least <= there <= lack.free_most
    if span.kind == "outage":
        away = [max(a, b) - a for a, b in zip(slow.there(t), whole(platform), strict=True)]
        assert slow.fits(row, plus(free, away))
    if span.kind == "reservation":
        assert slow.waiting(span.who, t)
        assert slow.promised(t)[span.who] < t + max(job.estimate, 1)
    if span.kind == "order":
        before = slow.queue[: slow.queue.index(row)]
        waits = [other for other in before if slow.waiting(other, t)]
        assert span.who == next(other for other in waits if not held_back(platform, slow.jobs[other], free))
    if span.kind == "window":
        window = slow.record.outages.windows[span.who]
        assert window.known <= t < window.begin < t + max(job.estimate, 1)


def check_passed(slow, row, found):
    later = set(slow.queue[slow.queue.index(row) + 1 :])
    stretches = slow.stretches(row)
    runs = [run for run in slow.runs if run[0] in later and any(b <= run[1] < u for b, u in stretches)]
    assert found.passed.jobs == len({job for job, *_ in runs})
    assert sum(found.passed.why.values()) == len(runs)
    for each in found.passed.largest:
        run = next(run for run in runs if run[0] == each.job and run[1] == each.start)
        if each.why == "smaller":
            assert not slow.fits(row, slow.free(each.start, without=run))
        if each.why in ("first", "reserved", "in-time-ahead", "beside-ahead", "chosen") and run[1] < run[2]:
            assert slow.fits(row, slow.free(each.start, without=run))
        own = slow.promised(each.start).get(row)
        assert (own is not None) == (each.why in ("in-time", "beside")) or each.why == "elsewhere"
        assert each.why != "in-time" or each.limit <= own


@some_policies
@FEWER
@given(case=pool_cases(jobs_max=15))
def test_on_a_pool(name, case):
    check(case, [], name)


@some_policies
@FEWER
@given(case=general_cases(jobs_max=12))
def test_with_nodes_licences_and_gangs(name, case):
    check(case, [], name)


@some_policies
@FEWER
@given(happening=cases_with_events(limited_cases()))
def test_with_partitions_and_limits(name, happening):
    case, events = happening
    check(case, events, name)


@pytest.mark.parametrize("name", ["easy", "conservative"])
@given(case=rich_pool_cases(jobs_max=12))
def test_with_several_resources(name, case):
    check(case, [], name)


@pytest.mark.parametrize("options", [{"ties": "step"}, {"overrun": "extend"}], ids=["step", "extend"])
@pytest.mark.parametrize("name", ["easy", "conservative"])
@FEWER
@given(case=general_cases(jobs_max=12))
def test_with_other_options(name, options, case):
    check(case, [], name, **options)


@some_policies
@FEWER
@given(happening=cases_with_events(chained_cases()))
def test_with_chains_and_events(name, happening):
    case, events = happening
    check(case, events, name)


@pytest.mark.parametrize("name", ["easy", "k-reservations:k=3", "conservative", "preemptive"])
@FEWER
@given(case=general_cases(jobs_max=12))
def test_promises_are_those_that_a_watched_job_gets(name, case):
    slow = Slow(case, [], name)
    workload, platform, asks = asked(case.jobs, case.platform)
    for row, job in enumerate(case.jobs):
        record = simulate(workload, platform, *policy(name), asks, watched=job.name).promises.rows()
        told = [(each.at, each.start) for each in slow.explain(row).promised]
        assert without_repetitions(told) == without_repetitions([(at, start) for at, _, start, _, _ in record])


def without_repetitions(told):
    """The starts that were promised, but for those that were the last one, too."""
    given = [each for each in told if each[1] != NO_TIME]
    return [each for i, each in enumerate(given) if not i or given[i - 1][1] != each[1]]
