"""The measurements, one function per question. Each yields rows, or a line that says why there is none."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import baseline
import dumps
import numpy as np
from curves import curves
from measure import Result, Target, exponent, speeds, warm, work
from processor_time import used

from backfill import loading, policies
from backfill.core.policy import Policy
from backfill.model.platform import Platform
from backfill.model.units import SECOND, counted
from backfill.model.workload import Workload
from backfill.traces.accounting.sacct import read_sacct
from backfill.traces.files import Source
from backfill.traces.read import read
from backfill.traces.write import write
from backfill.workloads import generate
from backfill.workloads.grid import grid
from backfill.workloads.threads import threads as many_threads
from backfill.workloads.twotier import two_tier
from backfill.worlds.options import Options
from backfill.worlds.simulated import FIRST_BUDGET, Simulation, simulate
from workloads import (
    CPUS,
    SHAPES,
    drained,
    four_kinds,
    of_many_resources,
    of_resources,
    on_sites,
    ricc,
    ricc_nodes,
    roomy_pool,
    same_walltime,
    single_nodes,
    slurm_site,
    synthetic,
    twenty_kinds,
    waiting,
    whole_nodes,
    with_licences,
    with_limits,
)
from workloads import deep as shaped

HERE = Path(__file__).parent
SHARED = HERE.parents[1] / "shared"  # recorded logs; not part of the project
COMMAND = Path(sys.executable).with_name("backfill")
LOG = SHARED / "traces" / "KTH-SP2-1996-2.1-cln.swf.gz"
CURIE = SHARED / "traces" / "CEA-Curie-2011-2.1-cln.swf.gz"
LANL = SHARED / "traces" / "LANL-CM5-1994-4.1-cln.swf.gz"
WAGAP = SHARED / "traces" / "wagap-2013.swf.gz"
HONEST = {"MALLOC_MMAP_THRESHOLD_": "65536"}  # glibc gives every larger array back, so none hides in freed memory
STABLE = 320  # mean time between projects that the node of the two-tier model can serve
Rows = Iterator[Result | str]


def million(quick: bool) -> int:
    return 100_000 if quick else 1_000_000


def against_cpp(
    name: str,
    workload: Workload,
    repeats: int,
    target: Target | None = None,
    ratio_target: Target | None = None,
    program: str = "easy",
) -> Result:
    """EASY on a pool against a dedicated C++ loop, in turns; the schedules must be equal."""
    jobs, seconds, starts = workload.jobs, [], np.zeros(0)

    def turn() -> None:
        nonlocal starts
        starts, took = baseline.run(jobs.submit, jobs.runtime, jobs.walltime, jobs.procs, CPUS, name=program)
        seconds.extend(took)

    ours, done = speeds(workload, Platform.pool(CPUS), policies.get("easy"), repeats, turn)
    assert (starts == done.schedule.start).all(), "C++ gives another schedule"
    return Result(
        name,
        "jobs/s",
        ours,
        target,
        against="C++" if program == "easy" else "C++ tree",
        yardstick=[len(jobs) / s for s in seconds],
        ratio_target=ratio_target,
        facts=work(done),
        note="schedules equal",
    )


def easy(quick: bool) -> Rows:
    for load, share in ((0.7, 0.6), (0.9, 0.7), (0.95, 0.75)):
        target = Target(1.5e6) if load == 0.9 else None
        workload = synthetic(load, million(quick))
        yield against_cpp(f"easy, load {load:g}", workload, 3 if quick else 7, target, Target(share))


def small(quick: bool) -> Rows:
    """Small jobs, so that hundreds run at once and the array of limits is long."""
    workload = synthetic(0.9, million(quick), largest=8)
    yield against_cpp("easy, load 0.9, sizes 1 to 8", workload, 2 if quick else 5)


def conservative(quick: bool) -> Rows:
    for name, cpus, load, target in (
        ("kth", 100, 1.0, 600_000),
        ("sdsc", 128, 1.0, 300_000),
        ("kth", 100, 1.5, 10_000),
        ("kth", 100, 3.0, 1_000),
    ):
        path = SHARED / "oracle" / f"{name}.jobs.csv.gz"
        title = f"conservative, {name.upper()}-SP2" + (f", arrivals x {load:g}" if load > 1 else "")
        if not path.exists():
            yield f"{title}: skipped, there is no {path}"
            continue
        if quick and load == 3:
            yield f"{title}: skipped, it is not quick"
            continue
        workload = read(path).at_load(load)
        repeats = {1.0: 5, 1.5: 2, 3.0: 1}[load]
        found, done = speeds(workload, Platform.pool(cpus), policies.get("conservative"), repeats)
        yield Result(title, "jobs/s", found, Target(target), facts=work(done))
    workload = ricc(20_000 if quick else 448_000)
    found, done = speeds(workload, Platform.pool(8192), policies.get("conservative"), 1)
    yield Result("conservative, RICC-2010's shape", "jobs/s", found, Target(10_000), facts=work(done))


def chosen(quick: bool) -> Rows:
    """Sets of jobs that are chosen together, on two logs with few and one shape with many jobs to choose from; on the
    logs also jobs that take turns in the rows of a matrix."""
    rows = ("gang-matrix", "gang-matrix-backfill")
    names = ("lookahead", "lookahead:objective=processor_seconds", "combinational", "flexible:backfill=greedy")
    for log, cpus in (("kth", 100), ("sdsc", 128)):
        path = SHARED / "oracle" / f"{log}.jobs.csv.gz"
        for name in (*names, *rows):
            title = f"{name}, {log.upper()}-SP2"
            if not path.exists():
                yield f"{title}: skipped, there is no {path}"
                continue
            policy, params = loading.load(name)
            found, done = speeds(read(path), Platform.pool(cpus), policy, 2 if quick else 5, params=params)
            yield Result(title, "jobs/s", found, Target(20_000), facts=work(done))
    for name in names[:3]:
        policy, params = loading.load(name)
        workload = waiting(3_000 if quick else 10_000)
        found, done = speeds(workload, Platform.pool(CPUS), policy, 2, params=params)
        yield Result(f"{name}, {len(workload):,} waiting", "jobs/s", found, Target(20_000), facts=work(done))


DEEP = ("easy", "easy-sjbf", "easy-saf", "first-fit", "ibb")  # policies


def deep(quick: bool) -> Rows:
    """Five shapes of jobs at load 1.5, and what a dynamic order costs."""
    for shape in SHAPES:
        workload = shaped(shape, million(quick))
        for name in DEEP:
            yield from deep_row(f"{name}, {shape}", workload, policies.get(name), 2 if quick else 3)
    fewer = synthetic(1.5, 10_000 if quick else 20_000)
    found, done = speeds(fewer, Platform.pool(CPUS), policies.get("easy-wfp3"), 1)
    note = f"{len(fewer):,} jobs; a dynamic order is sorted before each pass"
    yield Result("easy-wfp3, load 1.5", "jobs/s", found, facts=work(done), note=note)


def deep_row(title: str, workload: Workload, policy: Policy, repeats: int) -> Rows:
    """Looks per job; and jobs per second, for EASY on one resource beside the C++ loop with a tree."""
    pool = roomy_pool(workload)
    if policy.name == "easy" and len(workload.resources) == 1:
        share = Target(0.6 if title.endswith("one size") else 0.5)
        row = against_cpp(title, workload, repeats, ratio_target=share, program="deep")
    else:
        found, done = speeds(workload, pool, policy, repeats)
        row = Result(title, "jobs/s", found, facts=work(done))
    yield row
    looks = row.facts["looks_per_job"]
    yield Result(f"{title}, looks", "per job", [looks], Target(150, most=True), less=True)


def index(quick: bool) -> Rows:
    """Measure the cost at low load of being able to search a deep queue."""
    workload, pool = synthetic(0.7, million(quick)), Platform.pool(CPUS)
    with_index = policies.get("easy")
    without = with_index.like("easy-without-index", index=False)
    warm(workload, pool, without)
    plain: list[float] = []

    def turn() -> None:
        plain.append(len(workload) / simulate(workload, pool, without).elapsed_s)

    found, done = speeds(workload, pool, with_index, 3 if quick else 7, turn)
    yield Result(
        "easy, load 0.7",
        "jobs/s",
        found,
        against="no index",
        yardstick=plain,
        ratio_target=Target(0.8),
        facts=work(done),
    )


def nodes(quick: bool) -> Rows:
    """The price of nodes: single-node jobs on 64 nodes of 16 cpus against the same jobs on a pool of as many."""
    workload, policy = single_nodes(million(quick)), policies.get("easy")
    pool, plain = Platform.pool(CPUS), []
    warm(workload, pool, policy)

    def turn() -> None:
        plain.append(len(workload) / simulate(workload, pool, policy).elapsed_s)

    found, done = speeds(workload, Platform.pool(CPUS, nodes=64), policy, 2 if quick else 5, turn)
    note = "single-node jobs of 1 to 16 cpus, 64 nodes x 16 cpus"
    yield Result("easy on nodes, load 0.9", "jobs/s", found, against="a pool", yardstick=plain,
                 ratio_target=Target(0.7), facts=work(done), note=note)  # fmt: skip


def machines(quick: bool) -> Rows:
    """Whole machines: nodes with memory, in the shape of RICC-2010; how the cost grows with the queue."""
    workload, platform = ricc_nodes()
    rows = [("easy", 5_000), ("easy", 50_000), ("conservative", 1_000), ("conservative", 5_000)]
    for name, first in rows if quick else [*rows, ("easy", len(workload)), ("conservative", 10_000)]:
        found, done = speeds(workload.head(first), platform, policies.get(name), 1)
        target = Target(50_000) if first == len(workload) else None
        note = f"the first {first:,} jobs, 1,024 nodes of 8 cores and 12 GB"
        yield Result(f"{name}, RICC-2010's nodes", "jobs/s", found, target, facts=work(done), note=note)
    workload, platform = four_kinds(10_000 if quick else 100_000)
    found, done = speeds(workload, platform, policies.get("easy"), 1)
    note = f"{len(workload):,} jobs, GPUs, features, 20 licences"
    yield Result("easy, 10,000 nodes of four kinds", "jobs/s", found, Target(5_000), facts=work(done), note=note)


WANTED = {20_000: 1_500, 50_000: 1_000, 448_000: 600}  # jobs per second of conservative, by the number of jobs
CHEAPER = (  # relatives of conservative whose schedules are others, and the jobs of the log they are measured on
    ("conservative", {"every": 600}, (20_000,)),
    ("conservative", {"every": 3600}, (20_000, 50_000)),
    ("selective", {}, (20_000, 50_000)),
    ("reservation-depth", {"k": 20, "every": 60}, (20_000, 50_000, 448_000)),
    ("easy", {}, (20_000, 50_000, 448_000)),
)


def promised(quick: bool) -> Rows:
    """Every job promised on the nodes of RICC-2010: the first jobs of the log, as many as an hour allows.

    First come cheaper policies and `easy` on parts of the log, with their mean waits.
    """
    workload, platform = ricc_nodes()
    for name, params, sizes in CHEAPER:
        warm(workload, platform, policies.get(name))
        for first in (5_000,) if quick else sizes:
            begin = time.process_time()
            done = simulate(workload.head(first), platform, policies.get(name), params)
            found = [first / (time.process_time() - begin)]
            given = ",".join(f"{key}={value}" for key, value in params.items())
            wait = float((done.schedule.start - done.schedule.eligible).mean()) / SECOND
            title = f"{name}{given and ':'}{given}, the first {first:,} jobs"
            yield Result(title, "jobs/s of CPU", found, facts=work(done), note=f"mean wait {wait:,.0f} s")
    policy = policies.get("conservative")
    warm(workload, platform, policy)
    budget = 60 if quick else 3_600
    for first, least in WANTED.items():
        title, begin = f"conservative, RICC-2010's nodes, the first {first:,} jobs", time.process_time()
        came = 0

        def look(jobs: int, begin: float = begin) -> None:
            nonlocal came
            came = jobs
            if time.process_time() - begin > budget:
                raise TimeoutError

        try:
            done = simulate(workload.head(first), platform, policy, progress=look)
        except TimeoutError:
            yield f"{title}: not finished after {budget:,} s of processor time, when {came:,} jobs had come"
            return
        found = [first / (time.process_time() - begin)]
        yield Result(title, "jobs/s of CPU", found, Target(least), facts=work(done))


def windows(quick: bool) -> Rows:
    """A pass while windows are announced for 3 of 1,000 nodes, beside the same without windows.

    The mean from the time when all jobs but a few wait until none does, under `conservative` over the first 1,024
    passes, during which all but a few come.
    """
    for name, most in (("easy", 0.5), ("conservative", 50)):
        policy, took = policies.get(name), []
        workload, platform, events = drained(1_200 if quick else 12_000)
        whole = quick or name == "easy"
        for options in (Options(events=events), Options()):
            simulate(workload.head(200), platform, policy, options=options)
            passes, seconds = time_of_passes(partial(simulate, workload, platform, policy, options=options), whole)
            took.append(1e3 * seconds / passes)
        title = f"{name}, windows on 3 of 1,000 nodes, {len(workload):,} jobs"
        yield Result(title, "CPU ms/pass", took[:1], Target(most, most=True), less=True, against="none",
                     yardstick=took[1:], note="" if whole else f"the first {FIRST_BUDGET:,} passes")  # fmt: skip


def time_of_passes(run: Callable[..., Simulation], whole: bool) -> tuple[int, float]:
    """Return how many passes a run makes, or its first ones until it tells of its progress, and their CPU seconds."""

    def look(jobs: int) -> None:
        raise TimeoutError

    begin = time.process_time()
    try:
        passes = run(progress=None if whole else look).passes
    except TimeoutError:
        passes = FIRST_BUDGET
    return passes, time.process_time() - begin


def kinds(quick: bool) -> Rows:
    """100,000 nodes of twenty kinds: CPU seconds of a whole run, and the memory of its process."""
    jobs = 10_000 if quick else 1_000_000
    workload, platform = twenty_kinds(jobs)
    policy = policies.get("easy")
    warm(workload, platform, policy)
    begin = time.process_time()
    simulate(workload, platform, policy)
    took = time.process_time() - begin
    title = f"easy, {platform.name}, {jobs:,} jobs"
    yield Result(title, "CPU s", [took], Target(120, most=True), less=True)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    yield Result(f"{title}, memory", "GB", [most], Target(2, most=True), less=True)


def limits(quick: bool) -> Rows:
    """The log of wagap with and without a limit on the cpus of each of its 11 queues."""
    if not WAGAP.exists():
        yield f"limits: skipped, there is no {WAGAP}"
        return
    log = read(WAGAP)
    if quick:
        log = log.head(3_000)
    for title, (workload, platform) in (("no limits", (log, Platform.of(log))), ("11 limits", with_limits(log))):
        for name in ("easy", "conservative"):
            policy = policies.get(name)
            warm(workload, platform, policy)
            begin = time.process_time()
            done = simulate(workload, platform, policy)
            took = [time.process_time() - begin]
            target = Target(10, most=True) if name == "conservative" else None
            yield Result(f"{name}, wagap, {title}", "CPU s", took, target, less=True, facts=work(done))


LONG_QUEUES = ("easy", "easy-wfp3", "easy-lxf", "flexible", "bf-mod")  # policies
SECONDS = {"easy-wfp3": 0.3, "flexible": 0.3, "bf-mod": 0.3, "k-reservations:k=inf": 5}  # wanted for 10,000 jobs


def edges(quick: bool) -> Rows:
    """Unusual sizes: sites, resources, licences, tokens, equal walltimes, and thousands that wait at once."""
    few, many = (1_000, 3_000) if quick else (3_000, 10_000)
    pool = Platform.pool(CPUS)
    for title, name, (workload, platform) in (
        ("1,000 nodes in 10 sites", "easy", on_sites(few, 1_000, 10)),
        ("64 resources on 20 nodes", "easy", of_many_resources(few, 64)),
        ("64 resources on 20 nodes", "conservative", of_many_resources(few, 64)),
        ("1,000 licences", "easy", with_licences(few, 1_000)),
        ("1,000 licences", "conservative", with_licences(few, 1_000)),
        ("jobs of 1,500 tokens", "easy", with_licences(few, 1, 1_500)),
        ("equal walltimes, load 1.5", "easy", (same_walltime(100_000), pool)),
        *((f"{many:,} waiting", name, (waiting(many), pool)) for name in LONG_QUEUES),
        *((f"{few:,} waiting", name, (waiting(few), pool)) for name in ("conservative", "k-reservations:k=inf")),
    ):
        policy, params = loading.load(name)
        found, done = speeds(workload, platform, policy, 1, params=params)
        cost = [10_000 / speed for speed in found]
        note = f"{len(workload):,} jobs"
        target = Target(SECONDS[name], most=True) if name in SECONDS else None
        yield Result(f"{name}, {title}", "s/10,000", cost, target, less=True, facts=work(done), note=note)


def sites(quick: bool) -> Rows:
    """Gangs that sit on one site each behind a deep queue, against the same gangs anywhere."""
    jobs, policy = 2_500 if quick else 10_000, policies.get("easy")
    for count in (1, 2, 8, 100, 400):
        workload, platform = on_sites(jobs, 800, count)
        anywhere = workload.with_jobs(workload.jobs.replace(spread=np.full(jobs, 2, np.int8)))
        warm(anywhere, platform, policy)
        plain: list[float] = []

        def turn(anywhere: Workload = anywhere, platform: Platform = platform, plain: list[float] = plain) -> None:
            plain.append(jobs / simulate(anywhere, platform, policy).elapsed_s)

        found, done = speeds(workload, platform, policy, 3, turn)
        title = f"easy, 800 nodes in {counted(count, 'site')}"
        yield Result(title, "jobs/s", found, against="anywhere", yardstick=plain, ratio_target=Target(1 / 3),
                     facts=work(done), note=f"{jobs:,} jobs")  # fmt: skip


def projects(quick: bool) -> Rows:
    """Projects that are promised a departure: the paper's, many at a stable load, and behind ever longer queues."""
    for name, gap, most in (("2tsb", 10, 0.1), ("2tfb-sf", 10, 4), ("2tfb-sf", 160, 0.15)):
        title = f"{name}, 1,000 projects, inter-arrival {gap}"
        yield of_projects(title, name, 1000, gap, Target(most, most=True), 1 if quick else 3)
    many = 10_000 if quick else 100_000
    for name in ("2tsb", "2tfb-sf"):
        title = f"{name}, {many:,} projects, inter-arrival {STABLE}"
        yield of_projects(title, name, many, STABLE, Target(60, most=True))
        took = []
        for count in (125, 250, 500) if quick else (250, 500, 1000, 2000):
            row = of_projects(f"{name}, {count:,} projects, inter-arrival 10", name, count, 10)
            took.append((int(row.facts["most_waiting"]), row.best / count))
            yield row
        yield exponent(f"reservations, {name}", took)


def threads(quick: bool) -> Rows:
    """A million threads in one line: without predecessors, with them, listed from the end, and of few large jobs."""
    many, policy = million(quick), policies.get("thread-matrix")
    large = 2 * round(many**0.5)
    for linked, backwards, threads_of_a_job, most in (
        (False, False, 16, 2), (True, False, 16, 5), (True, True, 16, 5), (False, False, large, 5),
    ):  # fmt: skip
        workload = many_threads(2 * many // (threads_of_a_job + 1), most=threads_of_a_job, linked=0.7 if linked else 0)
        platform = Platform.pool(workload.cpus)
        if backwards:
            workload = replace(workload, jobs=workload.jobs.take(np.arange(len(workload))[::-1]))
        warm(workload, platform, policy)
        took = []
        for _ in range(1 if quick else 3):
            begun = time.perf_counter()
            done = simulate(workload, platform, policy)
            took.append(time.perf_counter() - begun)
        title = f"thread-matrix, {len(workload):,} threads, up to {threads_of_a_job:,} of a job"
        title += ", 7 of 10 after another one" if linked else ""
        title += ", listed before it" if backwards else ""
        yield Result(title, "s", took, Target(most, most=True), less=True, facts=work(done))


def of_projects(
    title: str, name: str, count: int, gap: float, target: Target | None = None, repeats: int = 1
) -> Result:
    """The seconds of a run of the two-tier model."""
    workload = two_tier(count, interarrival=gap)
    assert workload.platform is not None
    found, done = speeds(workload, workload.platform, policies.get(name), repeats)
    seconds = [len(workload) / speed for speed in found]
    return Result(title, "s", seconds, target, less=True, facts=work(done), note=f"{len(workload):,} jobs")


def grids(quick: bool) -> Rows:
    """Gangs on the grid of the paper, and on one of 20 sites of 512 processors."""
    for name in ("gang-site", "gang-span"):
        for local in (8, 13):
            log = grid(40_000 if quick else 400_000, local=local)
            found, done = speeds(log, Platform.of(log), policies.get(name), 1 if quick else 3)
            title = f"{name}, 2 sites of 16 processors, {local} local jobs/s each"
            yield Result(title, "jobs/s", found, Target(300_000), facts=work(done), note=f"{len(log):,} jobs")
        log = grid(million(quick), 20, 512, local=410, gangs=20, sizes="2-64")
        found, done = speeds(log, Platform.of(log), policies.get(name), 1)
        seconds, title = [len(log) / speed for speed in found], f"{name}, 20 sites of 512 processors"
        yield Result(
            title, "s", seconds, Target(120, most=True), less=True, facts=work(done), note=f"{len(log):,} jobs"
        )


def farm(quick: bool) -> Rows:
    """The computational farm: bf-mod against its slow twin on one run of the paper, and a farm of 1,000 machines."""
    sys.path.insert(0, str(HERE.parent))
    from tests.reference import world  # the twins are part of the tests
    from tests.reference.workloads import from_model

    log = generate(f"farm?jobs={300 if quick else 1000}&interarrival=4")
    jobs, platform = from_model(log, Platform.of(log))
    begin = time.perf_counter()
    rows = world.run(jobs, platform, world.POLICIES["bf-mod"])
    twin = len(jobs) / (time.perf_counter() - begin)
    found, done = speeds(log, Platform.of(log), policies.get("bf-mod"), 5)
    assert [row.start for row in rows] == done.schedule.start.tolist(), "the twin gives another schedule"
    note = "100 machines, 20 licences, inter-arrival 4"
    yield Result("bf-mod, the paper's farm", "jobs/s", found, against="its twin", yardstick=[twin] * 5,
                 ratio_target=Target(30), facts=work(done), note=note)  # fmt: skip
    large = generate(f"farm?jobs={10_000 if quick else 100_000}&machines=1000&licences=100&need=0.06&load=0.9")
    for name in ("bf-fcfs", "bf-mod"):
        pool = Platform.of(large)
        warm(log, Platform.of(log), policies.get(name))
        done = simulate(large, pool, policies.get(name))
        note = f"{len(large):,} jobs, 1,000 machines, 100 licences, load 0.9"
        yield Result(f"{name}, large farm", "s", [done.elapsed_s], Target(60, most=True), less=True, facts=work(done),
                     note=note)  # fmt: skip
    yield from growth(2_000 if quick else 20_000)


def growth(jobs: int) -> Rows:
    """How the cost of bf-mod grows: with machines, with licences, with the queue, one at a time."""
    for what, machines, licences, load in (
        ("a farm of", 500, 50, 0.9),
        ("half the machines", 250, 50, 0.9),
        ("twice the machines", 1000, 50, 0.9),
        ("half the licences", 500, 25, 0.9),
        ("twice the licences", 500, 100, 0.9),
        ("load 1", 500, 50, 1.0),
        ("load 1.2", 500, 50, 1.2),
    ):
        log = generate(f"farm?jobs={jobs}&machines={machines}&licences={licences}&need={6 / licences:g}&load={load}")
        done = simulate(log, Platform.of(log), policies.get("bf-mod"))
        note = f"{machines} machines, {licences} licences, load {load:g}"
        yield Result(f"bf-mod, {what}", "us/job", [done.elapsed_s / jobs * 1e6], less=True, facts=work(done), note=note)


def resources(quick: bool) -> Rows:
    """How the cost of IBB grows with the number of resources, and BB on a whole log."""
    log = synthetic(0.8, million(quick))
    one = 0.0  # nanoseconds for a look at a job with one resource
    for count in (1, 2, 4, 8):
        workload = of_resources(log, count)
        pool = roomy_pool(workload)
        found, done = speeds(workload, pool, policies.get("ibb"), 2 if quick else 3)
        yield Result(f"ibb, {count} resources", "jobs/s", found, Target(700_000) if count == 2 else None,
                     facts=work(done), note="load 0.8 of each")  # fmt: skip
        looks = [1e9 * len(workload) / (speed * done.looks) for speed in found]
        one = one or min(looks)
        # Jobs of more resources are harder to fit, so the queue grows and with it the looks per job.
        target = Target(count * one, most=True) if count > 1 else None
        yield Result(f"ibb, {count} resources, a look", "ns", looks, target, less=True,
                     note="at most K times that of one resource")  # fmt: skip
    if not LANL.exists():
        yield f"resources: skipped, there is no {LANL}"
        return
    lanl = read(LANL)
    pool = Platform.pool(1024, memory=32 * 2**30)
    bb, options = policies.get("bb"), Options(overrun="extend")
    simulate(lanl.head(200), pool, bb, {"per_event": "until_empty"}, options)
    done = simulate(lanl, pool, bb, {"per_event": "until_empty"}, options)
    yield Result("bb until empty, LANL-CM5", "s", [done.elapsed_s], Target(10, most=True), less=True, facts=work(done),
                 note=f"{len(lanl):,} jobs, 1,024 cpus, 32 GiB, overrun extend")  # fmt: skip


def memory(quick: bool) -> Rows:
    jobs = million(quick)
    for load in (0.9, 1.5):
        probe = [sys.executable, str(HERE / "memory.py"), str(load), str(jobs)]
        done = subprocess.run(probe, env=os.environ | HONEST, check=True, stdout=subprocess.PIPE, text=True)
        if not done.stdout.strip():
            yield "memory: skipped, this system does not tell the peak"
            return
        value = float(done.stdout)
        yield Result(f"easy, load {load:g}", "bytes/job", [value], Target(200, most=True), less=True)


def slurm(quick: bool) -> Rows:
    """Slurm's two loops: FastSim's case, a log of 20 months with a generated site, other shapes, ever longer queues."""
    jobs = 3_000 if quick else 140_000
    yield of_slurm("four months on 5,860 nodes", whole_nodes(jobs), Platform.pool(5_860, nodes=5_860), 120)
    if CURIE.exists():
        log = read(CURIE)
        some = log.head(10_000) if quick else log
        yield of_slurm("CEA-Curie, a generated site", some, slurm_site(log, 5_040, 80_640), 180)
    else:
        yield f"slurm: skipped, there is no {CURIE}"
    few, site = 1_000 if quick else 5_000, Platform.pool(CPUS, nodes=64)
    for title, workload, platform in (
        ("gangs of single cpus on 64 nodes, load 0.9", synthetic(0.9, few), site),
        ("the same, load 1.2", synthetic(1.2, few), site),
        ("single-node jobs on 64 nodes", single_nodes(few), site),
        ("RICC-2010's nodes", ricc_nodes()[0].head(few), ricc_nodes()[1]),
        ("nodes of four kinds", *four_kinds(few, parts=16)),
    ):
        yield of_slurm(title, workload, platform)
    took = []
    for many in (500, 1_000, 2_000) if quick else (1_000, 4_000, 16_000):
        row = of_slurm("all waiting at once on 64 nodes", waiting(many), site)
        took.append((many, row.best / many))
        yield row
    yield exponent("jobs that wait for slurm", took)


def of_slurm(title: str, workload: Workload, platform: Platform, most: float | None = None) -> Result:
    """The CPU seconds of a run of `slurm`. most: the target."""
    policy = policies.get("slurm")
    warm(workload, platform, policy)
    begin = time.process_time()
    done = simulate(workload, platform, policy)
    seconds, schedule = time.process_time() - begin, done.schedule
    ran = schedule.start >= schedule.eligible
    span = schedule.start.max() - workload.jobs.submit[0]
    waited = (schedule.start - schedule.eligible)[ran].sum() / span
    note = f"{len(workload):,} jobs, {done.passes:,} passes, {waited:.0f} waiting on average"
    return Result(f"slurm, {title}", "CPU s", [seconds], Target(most, most=True) if most else None, less=True,
                  facts=work(done), note=note)  # fmt: skip


def command(quick: bool) -> Rows:
    """The whole command, from the shell to the shell: warm, and with nothing compiled yet."""
    if not LOG.exists():
        yield f"command: skipped, there is no {LOG}"
        return
    arguments = [str(COMMAND), "simulate", str(LOG), "--policy", "easy", "--quiet"]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"BACKFILL_CACHE_DIR": folder}
        seconds = []
        for _ in range(6):
            begin = time.perf_counter()
            try:
                done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
            except OSError as error:
                yield f"command: skipped, {COMMAND} cannot be run ({error.strerror})"
                return
            seconds.append(time.perf_counter() - begin)
            if done.returncode:
                last = (done.stderr.strip() or "nothing on standard error").splitlines()[-1]
                yield f"command: skipped, backfill simulate ended with {done.returncode}: {last}"
                return
    yield Result("backfill simulate, warm", "s", seconds[1:], Target(1.5, most=True), less=True, note=LOG.name)
    yield Result("backfill simulate, first ever", "s", seconds[:1], Target(30, most=True), less=True, note=LOG.name)


def edited(quick: bool) -> Rows:
    """From an edit of a policy of one's own to its table: CPU seconds of a new process, everything else compiled."""
    page = (HERE.parent / "docs" / "tutorials" / "researcher-my-own-policy.md").read_text(encoding="utf-8")
    source = page.partition("# file: mine.py\n")[2].partition("```")[0]
    for jobs in (5_000, 20_000 if quick else 100_000):
        with tempfile.TemporaryDirectory() as folder:
            file, log = Path(folder) / "mine.py", Path(folder) / "jobs.swf"
            write(generate(f"lublin?jobs={jobs}&cpus=128&load=0.85&estimate_factor=5&seed=7"), log)
            arguments = [sys.executable, "-m", "backfill", "simulate", str(log), "--policy", f"{file}:polite", "-q"]
            rows: dict[str, list[float]] = {"as it was": [], "edited": []}
            for edit in range(7):
                for name in reversed(rows):  # an edit, and the same file once more
                    file.write_text(f"{source}# {edit}\n")
                    before = os.times()
                    subprocess.run(arguments, capture_output=True, check=True)
                    after = os.times()
                    used = after.children_user + after.children_system
                    rows[name].append(used - before.children_user - before.children_system)
        for name, seconds in rows.items():
            yield Result(f"own policy {name}, {jobs:,} jobs", "CPU s", seconds[1:], Target(3, most=True), less=True)


def imports(quick: bool) -> Rows:
    """Dumps of sacct, from the text to a workload with the machine that it shows."""
    lines = 50_000 if quick else 1_000_000
    for shape in dumps.SHAPES:
        source = Source.of(dumps.sacct(lines, shape).encode())
        seconds = []
        for _ in range(3 if quick else 1):
            begin = time.process_time()
            read_sacct(source, "UTC").on(None)
            seconds.append(time.process_time() - begin)
        yield Result(f"import sacct, {shape}", "CPU us/line", [1e6 * s / lines for s in seconds], less=True)


EIGHT = ("fcfs", "easy", "easy-sjbf", "conservative", "lookahead", "relaxed", "multi-queue", "first-fit")


def sweeps(quick: bool) -> Rows:
    """A comparison of eight policies as a command, by two workers against one process, in turns.

    Both by processor time: all of the one process, and of the other the critical path, which is what the clock would
    tell on an idle machine of two cores. The workers import what they need while the command reads the log.
    """
    if not Path("/proc/self/task").exists():
        yield "sweeps: skipped, this system does not tell the processor time of threads"
        return
    jobs = 50_000 if quick else 500_000
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "jobs.swf"
        write(generate(f"lublin?jobs={jobs}&cpus=256&load=0.8&estimate_factor=3"), log)
        arguments = [str(COMMAND), "compare", str(log), "-q", *(word for name in EIGHT for word in ("--policy", name))]
        subprocess.run([*arguments, "--workers", "1"], capture_output=True, check=True)  # compiles
        one, two, shares = [], [], []
        for _ in range(1 if quick else 3):
            alone = used([*arguments, "--workers", "1"])
            both = used([*arguments, "--workers", "2"])
            imports = used([sys.executable, "-c", "import backfill.runs"]).first
            one.append(len(EIGHT) * jobs / alone.all_threads)
            two.append(len(EIGHT) * jobs / (both.path - imports))
            shares.append((alone.all_threads, both.first + both.threads, max(both.workers)))
    middle = " + ".join(f"{np.median([share[i] for share in shares]):.1f}" for i in (1, 2))
    note = (
        f"medians: {np.median([share[0] for share in shares]):.1f} s against {middle} s for command and longest worker"
    )
    name = f"compare, eight policies, {jobs:,} jobs"
    yield Result(name, "jobs/s", two, None, False, "one process", one, Target(1.9), note=note)


def streams(quick: bool) -> Rows:
    """A stream of lublin's jobs to Parquet: CPU time for each job, and the most memory."""
    code = "import backfill as bf, resource, sys; bf.stream(sys.argv[1], to=sys.argv[2], format='parquet'); "
    code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    for jobs in (1_000_000,) if quick else (1_000_000, 10_000_000, 100_000_000):
        with tempfile.TemporaryDirectory() as folder:
            before = os.times()
            text = f"lublin?jobs={jobs}&cpus=256"
            done = subprocess.run(
                [sys.executable, "-c", code, text, folder], capture_output=True, check=True, text=True
            )
            after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        yield Result(f"stream, {jobs:,} jobs", "CPU us/job", [1e6 * used / jobs], less=True)
        yield Result(f"stream, {jobs:,} jobs", "MB", [float(done.stdout)], Target(1_000, most=True), less=True)


SUITES: dict[str, Callable[[bool], Rows]] = {
    "easy": easy,
    "small": small,
    "conservative": conservative,
    "chosen": chosen,
    "deep": deep,
    "index": index,
    "nodes": nodes,
    "machines": machines,
    "promised": promised,
    "windows": windows,
    "kinds": kinds,
    "limits": limits,
    "curves": curves,
    "projects": projects,
    "threads": threads,
    "grids": grids,
    "edges": edges,
    "sites": sites,
    "farm": farm,
    "resources": resources,
    "memory": memory,
    "slurm": slurm,
    "command": command,
    "edited": edited,
    "imports": imports,
    "sweeps": sweeps,
    "streams": streams,
}
