"""The synthetic workloads that the speed claims rest on."""

import hashlib
import math
from dataclasses import replace

import numpy as np

from backfill.model.events import Events
from backfill.model.partitions import Limit, Partition
from backfill.model.platform import Platform
from backfill.model.slurm_site import Association, SitePartition, SlurmSite
from backfill.model.units import SECOND
from backfill.model.workload import Counted, Ints, Jobs, Labels, Ragged, Workload

CPUS = 1024
LOADS = (0.7, 0.9, 0.95, 1.5)


def synthetic(
    load: float, jobs: int = 1_000_000, cpus: int = CPUS, *, seed: int = 1, largest: int | None = None
) -> Workload:
    """`jobs` rigid jobs at an offered load: sum of procs * runtime / (cpus * last submit). Whole seconds.

    Arrivals: Poisson. Sizes: log-uniform from 1 to `largest` (default cpus / 4), three quarters of them rounded to a
    power of two.
    Run times: lognormal with median 10 min and sigma 1.8, cut at 1 s and 2 days. Walltime: run time x U[1, 5].
    The same seed gives the same jobs at every load; only the submit times are stretched.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    largest = largest or cpus // 4
    log2 = random.uniform(0, math.log2(largest), jobs)
    log2 = np.where(random.random(jobs) < 0.75, np.rint(log2), log2)
    procs = np.rint(np.exp2(log2)).astype(np.int64)
    runtime = np.rint(np.exp(random.normal(math.log(600), 1.8, jobs)).clip(1, 172_800)).astype(np.int64)
    walltime = np.ceil(runtime * random.uniform(1, 5, jobs)).astype(np.int64)
    submit = _arrivals(random.exponential(1, jobs), procs * runtime, cpus * load)
    name = f"synthetic load={load:g} jobs={jobs} cpus={cpus} largest={largest} seed={seed}"
    return _workload(name, submit * SECOND, runtime * SECOND, walltime * SECOND, procs, cpus)


SHAPES = ("steps of 300 s", "powers of two", "ten walltimes", "one size", "two resources")


def deep(shape: str, jobs: int = 1_000_000, *, load: float = 1.5, seed: int = 1) -> Workload:
    """A workload that leaves a tenth of its jobs and more waiting, of one of these shapes:

    steps of 300 s: walltimes rounded up to 5 min, sizes spread evenly from 1 to 256
    powers of two: sizes from 1 to 256 that are powers of two, walltimes in whole microseconds
    ten walltimes: rounded up to one of ten, from 5 min to 10 days
    one size: 16 processors each
    two resources: the jobs of `synthetic`, see `of_resources`

    All else is as in `synthetic`.
    """
    base = synthetic(load, jobs, seed=seed)
    if shape == "two resources":
        return of_resources(base, 2)
    random = np.random.Generator(np.random.PCG64([seed, SHAPES.index(shape)]))
    procs, runtime, walltime = base.jobs.procs, base.jobs.runtime, base.jobs.walltime
    if shape == "steps of 300 s":
        procs = random.integers(1, CPUS // 4 + 1, jobs)
        walltime = -(-walltime // (300 * SECOND)) * 300 * SECOND
    elif shape == "powers of two":
        procs = 2 ** random.integers(0, 9, jobs)
        walltime = np.ceil(runtime * random.uniform(1, 5, jobs)).astype(np.int64)
    elif shape == "ten walltimes":
        hours = np.array([1 / 12, 1 / 4, 1 / 2, 1, 2, 6, 12, 24, 72, 240])
        values = (3600 * SECOND * hours).astype(np.int64)
        walltime = values[np.searchsorted(values, walltime)]
    else:
        procs = np.full(jobs, 16)
    submit = _arrivals(random.exponential(1, jobs), procs * (runtime // SECOND), CPUS * load)
    return _workload(f"{shape}, load={load:g} jobs={jobs} seed={seed}", submit * SECOND, runtime, walltime, procs, CPUS)


def _arrivals(gaps: Ints, work: Ints, rate: float) -> Ints:
    """Submits with gaps in these proportions, in whole seconds; at the last `rate` would have done all the work."""
    arrival = np.cumsum(gaps)
    found: Ints = np.floor(arrival * (float(work.sum()) / rate / arrival[-1]) + 0.5).astype(np.int64)
    return found


def _workload(name: str, submit: Ints, runtime: Ints, walltime: Ints, procs: Ints, cpus: int) -> Workload:
    return Workload(
        jobs=Jobs(job=np.arange(1, len(submit) + 1), submit=submit, runtime=runtime, walltime=walltime, tasks=procs),
        name=name,
        # Of the jobs, not of the arguments: numpy may change the streams of its distributions.
        sha256=hashlib.sha256(np.stack([submit, runtime, walltime, procs]).tobytes()).hexdigest(),
        cpus=cpus,
    )


def of_resources(workload: Workload, count: int, *, seed: int = 2) -> Workload:
    """The same jobs with `count` resources: each further one is asked for in proportion to the processors, times a
    lognormal factor of mean 1 and sigma 0.7, in thousandths. Every resource has the same offered load, but for cuts."""
    random = np.random.Generator(np.random.PCG64(seed))
    procs = workload.jobs.procs
    demand = [procs]
    for _ in range(1, count):
        factor = np.exp(random.normal(-0.245, 0.7, len(procs)))
        demand.append(np.rint(1000 * procs * factor).astype(np.int64).clip(1, 1000 * CPUS))
    jobs = workload.jobs.replace(tasks=np.ones_like(procs), demand=np.column_stack(demand))
    names = ("cpus", *(f"r{i}" for i in range(1, count)))
    return Workload(jobs, name=f"{workload.name} resources={count}", resources=names, cpus=CPUS)


def roomy_pool(workload: Workload, cpus: int = CPUS) -> Platform:
    """A pool with 1,000 of each other resource for a processor."""
    return Platform.pool(cpus, **dict.fromkeys(workload.resources[1:], 1000 * cpus))


def single_nodes(jobs: int) -> Workload:
    """Jobs of 1 to 16 processors on one node each, at load 0.9."""
    base = synthetic(0.9, jobs, largest=16)
    alone = base.jobs.replace(demand=base.jobs.tasks.reshape(-1, 1), tasks=np.ones_like(base.jobs.tasks))
    return base.with_jobs(alone)


def ricc(jobs: int = 448_000, *, load: float = 0.85, seed: int = 6) -> Workload:
    """A workload of the shape of RICC-2010: bursts of small jobs on a large machine.

    From the Parallel Workloads Archive (RICC-2010): 448,000 jobs, 8,192 cpus, 115 sizes, three quarters of the jobs on
    one core, about 20,000 jobs waiting behind the largest bursts. All else is chosen: bursts at Poisson
    instants, with a lognormal number of jobs (median 8, sigma 2, cut at 1 and 12,000); sizes above 1 log-uniform up to
    1,024; run times lognormal around a median of each burst (sigma 0.5; the medians around 20 min, sigma 1.5), cut at
    1 min and 3 days; walltimes rounded up to one of nine from twice the run time.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    count = np.exp(random.normal(math.log(8), 2, jobs)).clip(1, 12_000).astype(np.int64)
    burst = np.repeat(np.arange(jobs), count)[:jobs]
    sizes = np.unique(np.rint(np.geomspace(2, 1024, 152)).astype(np.int64))
    cpus = np.where(random.random(jobs) < 0.75, 1, sizes[random.integers(0, len(sizes), jobs)])[burst]
    median = np.exp(random.normal(math.log(1200), 1.5, jobs))[burst]
    runtime = np.rint(median * np.exp(random.normal(0, 0.5, jobs))).clip(60, 259_200).astype(np.int64)
    values = 3600 * np.array([1, 2, 4, 8, 12, 24, 48, 72, 144])
    walltime = values[np.searchsorted(values, 2 * runtime)]
    gaps = np.where(np.diff(burst, prepend=-1) > 0, random.exponential(1, jobs), 0.001)
    submit = _arrivals(gaps, cpus * runtime, 8192 * load)
    name = f"RICC-2010's shape load={load:g} jobs={jobs} seed={seed}"
    return _workload(name, submit * SECOND, runtime * SECOND, walltime * SECOND, cpus, 8192)


def ricc_nodes(jobs: int = 448_000, *, seed: int = 6) -> tuple[Workload, Platform]:
    """The jobs of `ricc` as tasks of one core with memory, and the machine: 1,024 nodes of 8 cores and 12 GB.

    From the Parallel Workloads Archive (RICC-2010): nodes of 8 cores and 12 GB, 54 amounts of memory. Chosen: one
    amount per burst, for each core; half of the bursts ask for one of two usual amounts (1.2 and 1.5 GB), the others
    for one of 52 between 100 MB and 12 GB, the larger the rarer, so that a node holds from 1 to 8 tasks.
    """
    base = ricc(jobs, seed=seed)
    random = np.random.Generator(np.random.PCG64([seed, 12]))
    burst = np.cumsum(np.diff(base.jobs.walltime, prepend=0) != 0)  # where a burst begins walltimes mostly change
    amounts = np.unique(np.rint(np.geomspace(100, 12_000, 52)).astype(np.int64))
    drawn = amounts[(random.geometric(0.06, jobs) - 1) % len(amounts)]
    usual = np.where(random.random(jobs) < 0.5, 1_200, 1_500)
    memory = np.where(random.random(jobs) < 0.5, usual, drawn)[burst]
    demand = np.column_stack([np.ones(jobs, np.int64), memory])
    workload = replace(
        base,
        jobs=base.jobs.replace(demand=demand),
        name=f"{base.name} on nodes",
        sha256=hashlib.sha256(base.sha256.encode() + memory.tobytes()).hexdigest(),
        resources=("cpus", "memory"),
    )
    return workload, Platform.pool(8192, nodes=1024, memory=1024 * 12_000)


KINDS = (  # nodes, cpus, GB, gpus, features
    (6_000, 32, 128, 0, ("ib",)),
    (2_000, 64, 1_024, 0, ("ib", "large")),
    (1_500, 64, 512, 4, ("ib", "a100")),
    (500, 16, 64, 2, ("old",)),
)


def four_kinds(jobs: int = 100_000, *, parts: int = 1, load: float = 1.1, seed: int = 8) -> tuple[Workload, Platform]:
    """A centre of 10,000 nodes of four kinds (divided by `parts`) with GPUs, features and 20 licences, and its jobs.

    All is chosen, no log has all of it: a seventh of the jobs on GPUs, a third of them of a type; one in ten bound by
    a feature, one in five with one of 20 licences of 6 to 61 copies, the more the more copies; gangs of 1 to 512
    tasks, half of them one; 1, 2, 4, 8 or 16 cpus and 1 to 8 GB per cpu for each task; run times lognormal around
    40 min (sigma 1.6).
    """
    random = np.random.Generator(np.random.PCG64(seed))
    kinds = [(nodes // parts, *rest) for nodes, *rest in KINDS]
    count = [nodes for nodes, *_ in kinds]
    copies = np.rint(np.geomspace(5, 60, 20) / parts).astype(np.int64) + 1
    platform = Platform(
        nodes=tuple(f"{'abcd'[k]}{i}" for k, many in enumerate(count) for i in range(many)),
        resources=("cpus", "memory", "gpus"),
        capacity=np.repeat(np.array([[cpus, gb, gpus] for _, cpus, gb, gpus, _ in kinds], np.int64), count, axis=0),
        speed=np.ones(sum(count)),
        site=np.zeros(sum(count), np.int64),
        features=tuple(kind[-1] for kind in kinds for _ in range(kind[0])),
        licences=tuple(f"l{i}" for i in range(20)),
        copies=copies,
        name=f"{sum(count):,} nodes of four kinds",
    )
    single = random.random(jobs) < 0.5
    tasks = np.where(single, 1, np.exp(random.uniform(0, math.log(512), jobs))).astype(np.int64)
    cpus = 2 ** random.integers(0, 5, jobs)
    gpus = np.where(random.random(jobs) < 1 / 7, random.integers(1, 3, jobs), 0)
    tasks = np.where(gpus > 0, np.minimum(tasks, 32), tasks)
    memory = cpus * random.integers(1, 9, jobs)
    bound = np.where(random.random(jobs) < 0.1, random.integers(0, 2, jobs), -1)
    texts = np.where(gpus > 0, np.where(random.random(jobs) < 1 / 3, "a100", ""), np.array(["ib", "large", ""])[bound])
    licence = np.where(random.random(jobs) < 0.2, random.choice(20, jobs, p=copies / copies.sum()), -1)
    runtime = np.rint(np.exp(random.normal(math.log(2_400), 1.6, jobs))).clip(1, 172_800).astype(np.int64)
    walltime = (runtime * random.uniform(1, 4, jobs)).astype(np.int64) // 600 * 600 + 600
    submit = _arrivals(random.exponential(1, jobs), tasks * cpus * runtime, platform.cpus * load)
    base = _workload(f"{platform.name} jobs={jobs} seed={seed}", submit * SECOND, runtime * SECOND,
                     walltime * SECOND, tasks, platform.cpus)  # fmt: skip
    columns = {
        "demand": np.column_stack([cpus, memory, gpus]),
        "constraint": Labels.of(texts.tolist()),
        "licences": Ragged.of([[int(i)] if i >= 0 else [] for i in licence]),
    }
    return replace(
        base, jobs=base.jobs.replace(**columns), resources=platform.resources, licences=platform.licences
    ), platform


def twenty_kinds(
    jobs: int = 1_000_000, *, nodes: int = 100_000, load: float = 0.9, seed: int = 10
) -> tuple[Workload, Platform]:
    """A centre of 100,000 nodes of twenty kinds, one of 16 to 128 cpus with 2 to 16 GB for each, and its jobs.

    All is chosen: one job in ten is bound to the nodes with a feature, which are those with at least 8 GB for each cpu
    or those with at least 64 cpus; sizes, memory and run times are those of `four_kinds`, without GPUs and licences.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    kinds = [(cpus, gb * cpus) for cpus in (16, 32, 48, 64, 128) for gb in (2, 4, 8, 16)]
    kind = np.arange(nodes) * len(kinds) // nodes
    features = [("large",) * (cpus >= 64) + ("roomy",) * (gb >= 8 * cpus) for cpus, gb in kinds]
    platform = Platform(
        nodes=tuple(f"n{i}" for i in range(nodes)),
        resources=("cpus", "memory"),
        capacity=np.array(kinds, np.int64)[kind],
        speed=np.ones(nodes),
        site=np.zeros(nodes, np.int64),
        features=tuple(features[k] for k in kind.tolist()),
        name=f"{nodes:,} nodes of twenty kinds",
    )
    tasks = np.where(random.random(jobs) < 0.5, 1, np.exp(random.uniform(0, math.log(512), jobs))).astype(np.int64)
    cpus = 2 ** random.integers(0, 5, jobs)
    memory = cpus * random.integers(1, 9, jobs)
    bound = np.where(random.random(jobs) < 0.1, random.integers(0, 2, jobs), -1)
    runtime = np.rint(np.exp(random.normal(math.log(2_400), 1.6, jobs))).clip(1, 172_800).astype(np.int64)
    walltime = (runtime * random.uniform(1, 4, jobs)).astype(np.int64) // 600 * 600 + 600
    submit = _arrivals(random.exponential(1, jobs), tasks * cpus * runtime, platform.cpus * load)
    base = _workload(f"{platform.name} jobs={jobs} seed={seed}", submit * SECOND, runtime * SECOND,
                     walltime * SECOND, tasks, platform.cpus)  # fmt: skip
    texts = np.array(["large", "roomy", ""])[bound]
    columns = {"demand": np.column_stack([cpus, memory]), "constraint": Labels.of(texts.tolist())}
    return replace(base, jobs=base.jobs.replace(**columns), resources=platform.resources), platform


def whole_nodes(jobs: int = 140_000, *, nodes: int = 5_860, load: float = 1.0, seed: int = 9) -> Workload:
    """Jobs on whole nodes of one cpu: 140,000 of them keep 5,860 nodes busy for four months, about 540 waiting.

    The number of nodes, the time and the queue are those of FastSim's case (HPE, 2023), all else is chosen: a third of
    the jobs on one node, the others log-uniform up to 256 and a few up to 2,048, three quarters of them powers of two;
    run times lognormal around 80 min (sigma 1.6), cut at 10 s and 1 day; nine walltimes from 20 min to 2 days, 1 to 2.5
    times the run time; the rate of submits swings by 40 % in eight waves.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    size = np.exp(random.uniform(0, math.log(256), jobs))
    size = np.where(random.random(jobs) < 0.35, 1, size)
    size = np.where(random.random(jobs) < 0.01, size * random.uniform(1, 8, jobs), size)
    size = np.where(random.random(jobs) < 0.75, 2 ** np.rint(np.log2(size)), np.rint(size)).clip(1, 2048)
    runtime = np.rint(np.exp(random.normal(math.log(5_000), 1.6, jobs))).clip(10, 86_400).astype(np.int64)
    values = 1_200 * np.array([1, 3, 6, 12, 18, 36, 54, 72, 144])
    walltime = values[np.searchsorted(values, (runtime * random.uniform(1, 2.5, jobs)).clip(1, 172_800))]
    gaps = random.exponential(1, jobs) * (1 + 0.4 * np.sin(np.arange(jobs) * (16 * math.pi / jobs)))
    submit = _arrivals(gaps, size.astype(np.int64) * runtime, nodes * load)
    base = _workload(f"whole nodes jobs={jobs} nodes={nodes} load={load:g} seed={seed}", submit * SECOND,
                     runtime * SECOND, walltime * SECOND, size.astype(np.int64), nodes)  # fmt: skip
    return base.with_jobs(base.jobs.replace(spread=np.full(jobs, 3, np.int8)))


def slurm_site(workload: Workload, nodes: int, cpus: int) -> Platform:
    """A generated site for a log: its partitions `large`, `standard` and the others in tiers 1, 1 and 2, all on all
    nodes; its groups as accounts and its users in them, all with equal shares; age, fair share and size count.
    """
    jobs = workload.jobs
    everywhere = np.arange(nodes)
    names = list(jobs.partition.names)
    people = {(jobs.group[i], jobs.user[i]) for i in range(len(jobs))}
    accounts = sorted({account for account, _ in people})
    place = {account: 1 + i for i, account in enumerate(accounts)}
    site = SlurmSite(
        config={
            "accountingstoragetype": "accounting_storage/slurmdbd", "prioritytype": "priority/multifactor",
            "priorityweightage": "1000", "priorityweightfairshare": "10000", "priorityweightjobsize": "500",
        },
        partitions=tuple(SitePartition(name, tier=1 if name in ("large", "standard") else 2) for name in names),
        weights=(1,) * nodes,
        associations=(
            Association("root"),
            *(Association(account, parent=0) for account in accounts),
            *(Association(account, user=user, parent=place[account]) for account, user in sorted(people)),
        ),
    )  # fmt: skip
    partitions = tuple(Partition(name=name, nodes=everywhere, default=i == 0) for i, name in enumerate(names))
    return replace(Platform.pool(cpus, nodes=nodes), partitions=partitions, slurm=site)


def waiting(jobs: int, *, seed: int = 3) -> Workload:
    """All jobs but a few wait at once: submitted within 1,000 s on a machine that has work for weeks. 1,024 cpus."""
    base = synthetic(1.5, jobs, seed=seed)
    submit = np.sort(np.random.Generator(np.random.PCG64([seed, 1])).integers(0, 1_000, jobs)) * SECOND
    return base.with_jobs(base.jobs.replace(submit=submit))


def drained(jobs: int = 12_000, *, seed: int = 12) -> tuple[Workload, Platform, Events]:
    """Jobs that nearly all wait at once on 1,000 nodes of 64 cpus, three of which are drained by windows.

    One window is open from the begin on, two begin after a day and after two days; all last for ten days. Tasks of one
    cpu, up to 16,000 for a job; all else is as in `synthetic`.
    """
    base, platform = synthetic(1.5, jobs, 64_000, seed=seed), Platform.pool(64_000, nodes=1_000)
    submit = np.sort(np.random.Generator(np.random.PCG64([seed, 1])).integers(0, 1_000, jobs)) * SECOND
    rows = [
        {"time": 0, "event": "window", "node": platform.nodes[node], "value": begin, "until": begin + 864_000}
        for node, begin in ((400, 0), (500, 86_400), (600, 172_800))
    ]
    return base.with_jobs(base.jobs.replace(submit=submit)), platform, Events.of(rows)


def same_walltime(jobs: int) -> Workload:
    """The jobs of `synthetic` at load 1.5, all with a walltime of 10 days."""
    base = synthetic(1.5, jobs)
    return base.with_jobs(base.jobs.replace(walltime=np.full(jobs, 864_000 * SECOND)))


def on_sites(jobs: int, nodes: int, sites: int) -> tuple[Workload, Platform]:
    """Gangs of 1 to 64 tasks that sit on one site each, at load 1.5 of so many nodes of one processor.

    They have no more tasks than a site has nodes.
    """
    base = synthetic(1.5, jobs, cpus=nodes, largest=min(64, nodes // sites))
    platform = replace(
        Platform.pool(nodes, nodes=nodes),
        site=np.arange(nodes) * sites // nodes,
        sites=tuple(f"s{i}" for i in range(sites)),
    )
    return base.with_jobs(base.jobs.replace(spread=np.full(jobs, 1, np.int8))), platform


def of_many_resources(jobs: int, count: int) -> tuple[Workload, Platform]:
    """Single-node jobs that ask for `count` resources, at load 1.5 of each, and 20 nodes of 51 of the first."""
    base = of_resources(synthetic(1.5, jobs, cpus=1020, largest=16), count)
    per_node = dict.fromkeys(base.resources[1:], 20 * 51_000)
    return base, Platform.pool(1020, nodes=20, **per_node)


def with_licences(jobs: int, licences: int, copies: int = 1, *, seed: int = 5) -> tuple[Workload, Platform]:
    """The jobs of `synthetic` at load 1.5, half of them with so many copies of one of so many licences."""
    base = synthetic(1.5, jobs)
    random = np.random.Generator(np.random.PCG64(seed))
    asked, some = random.integers(0, licences, jobs), np.flatnonzero(random.random(jobs) < 0.5)
    items = Counted.of_items(jobs, some, asked[some], np.full(len(some), copies))
    names = tuple(f"l{i}" for i in range(licences))
    platform = replace(
        Platform.pool(CPUS),
        licences=names,
        copies=np.full(licences, max(4, 200 // licences) * copies),
        hosts=np.ones((1, licences), np.bool_),
    )
    workload = replace(base.with_jobs(base.jobs.replace(licences=items)), licences=names)
    return workload, platform


def with_limits(log: Workload) -> tuple[Workload, Platform]:
    """A log on its own machine, with a partition for each of its queues, on all nodes, and a limit for each partition.

    Its running jobs may hold as many cpus together as they held on average in the log, at least those of its largest
    job: so limits hold jobs back as often as nodes do.
    """
    jobs, platform = log.jobs, Platform.of(log)
    names, cpus = jobs.queue.names, jobs.tasks * jobs.demand[:, 0]
    work = np.bincount(jobs.queue.codes, cpus * np.minimum(jobs.runtime, jobs.walltime), len(names))
    mean = np.ceil(work / (jobs.submit.max() - jobs.submit.min()))
    limits = []
    for code, name in enumerate(names):
        most = max(int(cpus[jobs.queue.codes == code].max(initial=1)), int(mean[code]))
        limits.append(Limit(name=name, partitions=(name,), running={"cpus": most}))
    everywhere = np.arange(len(platform.nodes))
    parts = tuple(Partition(name=name, nodes=everywhere) for name in names)
    return log.with_jobs(jobs.replace(partition=jobs.queue)), replace(platform, partitions=parts, limits=tuple(limits))
