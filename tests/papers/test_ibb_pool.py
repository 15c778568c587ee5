"""The experiment of the IBB paper on a pool, here one whose time is virtual: the planner starts what the simulation
starts, whatever the dead time, and nothing is left behind."""

import json
import time

import numpy as np
import pytest

from backfill import gang_run
from backfill.gang_run import POLL, run
from backfill.model.errors import BackfillError, UsageError
from backfill.model.platform import Platform
from backfill.model.units import SECOND
from backfill.papers import ibb_claims, ibb_pool, ibb_pool_runs, nas
from backfill.papers.ibb_claims import BEST_FIT, EASY, FCFS, IBB, IBB_CYCLE
from backfill.papers.ibb_logs import RESPONSE, WAIT
from backfill.papers.ibb_pool import OnPool, PoolAsked, reproduce
from backfill.papers.ibb_pool_runs import policy_of, simulated
from backfill.papers.write import write
from backfill.pools.htcondor_gangs import GangFailed
from backfill.pools.seen import Down

GIB = 2**30
TENTH = SECOND // 10


def nodes(count=nas.NODES, cpus=nas.CORES, memory=32 * GIB):
    return Platform(
        nodes=tuple(f"n{i}" for i in range(count)),
        resources=("cpus", "memory"),
        capacity=np.array([[cpus, memory]] * count),
        speed=np.ones(count),
        site=np.zeros(count, np.int64),
        name="four",
    )


class Virtual:
    """Time that passes where somebody sleeps."""

    def __init__(self):
        self.t = 0

    def now(self):
        return self.t

    def sleep(self, span):
        self.t += span


class Gangs:
    """Runs gangs in virtual time; all of them take as long to begin, and as long until their end is seen."""

    def __init__(self, clock, launch=0, notice=0, platform=None, fails=()):
        self.clock, self.launch, self.notice, self.fails = clock, launch, notice, dict(fails)
        self.nodes = platform or nodes()
        self.held = dict.fromkeys(self.nodes.nodes, 0)
        self.memory = dict.fromkeys(self.nodes.nodes, 0)
        self.open, self.started, self.removed, self.looks = {}, [], 0, 0
        self.busy = ""

    def version(self):
        return "0.0"

    def platform(self):
        return self.nodes.to_toml()

    def occupied(self):
        return self.busy

    def start(self, some):
        for gang in some:
            self.started.append(gang)
            self.hold(gang, 1)
            begin = self.clock.now() + self.launch
            self.open[gang.name] = (gang, begin, begin + round(gang.seconds * SECOND) + self.notice)
        assert max(self.held.values()) <= nas.CORES
        assert max(self.memory.values()) <= int(self.nodes.capacity[0, 1])

    def hold(self, gang, sign):
        for name, tasks in gang.nodes.items():
            self.held[name] += sign * tasks
            self.memory[name] += sign * tasks * gang.memory

    def look(self):
        self.looks += 1
        if problem := self.fails.get(self.looks):
            raise problem
        now = self.clock.now()
        over = [name for name, (_, _, end) in self.open.items() if end <= now]
        runs = [name for name, (_, begin, _) in self.open.items() if begin <= now]
        for name in over:
            self.hold(self.open.pop(name)[0], -1)
        return runs, over

    def remove(self):
        self.removed += 1
        self.open.clear()


def on_grid(seed, scale=1.0):
    """The jobs, with run times in tenths of a second, so that each end is at a look."""
    log = nas.on_nodes(seed, nodes(), scale)
    return log.with_jobs(log.jobs.replace(runtime=-(-log.jobs.runtime // POLL) * POLL))


@pytest.mark.parametrize("name", [FCFS, BEST_FIT, IBB, EASY])
def test_the_planner_starts_on_a_pool_what_the_simulation_starts(name):
    clock, log = Virtual(), on_grid(3, 0.02)
    gangs = Gangs(clock)
    ran = run(gangs, log, name, 0, 0, clock)
    assert np.array_equal(ran.decided, simulated(log, name, 0, ran, 0).decided)
    assert ran.dead(log) == 0
    assert sorted(gang.name for gang in gangs.started) == sorted(log.jobs.job.tolist())
    assert len({*ran.decided.tolist()}) > 20


@pytest.mark.parametrize(("name", "cycle"), [(FCFS, 0), (IBB, 0), (IBB_CYCLE, 3 * SECOND)])
def test_a_dead_time_that_is_measured_gives_the_same_starts(name, cycle):
    clock, log, dead = Virtual(), on_grid(1, 0.02), 20 * TENTH
    ran = run(Gangs(clock, 15 * TENTH, 5 * TENTH), log, policy_of(name), dead, cycle, clock)
    again = simulated(log, name, dead, ran, cycle)
    assert ran.dead(log) == dead
    assert ran.launch == 15 * TENTH
    for step in ("decided", "running", "ended", "noticed"):
        assert np.array_equal(getattr(ran, step), getattr(again, step)), step
    if cycle:
        assert (ran.decided % cycle == 0).all()
    assert ibb_pool_runs.numbers(log, ran) == ibb_pool_runs.numbers(log, again)


def test_one_pass_per_cycle_starts_later():
    clock, log = Virtual(), on_grid(1, 0.02)
    often, cycled = (
        run(Gangs(each, 10 * TENTH, 0), log, IBB, 0, cycle, each)
        for cycle, each in ((0, clock), (5 * SECOND, Virtual()))
    )
    assert cycled.decided.mean() > often.decided.mean() + SECOND


def test_numbers_are_those_of_the_run():
    log = on_grid(0)
    jobs = log.jobs
    zero = jobs.submit + 2 * SECOND
    ran = gang_run.Ran(zero, zero + SECOND, zero + SECOND + jobs.runtime, zero + 4 * SECOND + jobs.runtime)
    told = ibb_pool_runs.numbers(log, ran)
    assert told[WAIT] == pytest.approx(3)
    assert told[RESPONSE] == pytest.approx(3 + jobs.runtime.mean() / SECOND)
    assert told[ibb_pool_runs.DEAD] == pytest.approx(4)
    assert told[ibb_pool_runs.LAUNCH] == pytest.approx(1)
    work = (jobs.tasks * jobs.runtime).sum()
    assert told[ibb_pool_runs.BUSY] == pytest.approx(work / (32 * ran.ended.max()))
    assert told["wait_of_largest"] == pytest.approx(3)


def test_memory_is_rounded_up_and_keeps_its_share_of_a_node():
    log = nas.on_nodes(0, nodes(), 0.02)
    by_name = dict(zip(log.jobs.job.tolist(), range(54), strict=True))
    shape = next(shape for shape in nas.SHAPES if shape.name == "FT.C.4")
    row = by_name["FT.C.4"]
    assert shape.memory // 4 * 8 == 10_400  # MB of a node with 8 times the memory
    assert log.jobs.demand[row].tolist() == [1, 82 * 128 * 2**20]
    assert (log.jobs.demand[:, 1] % (128 * 2**20) == 0).all()
    assert log.jobs.runtime.min() == SECOND


@pytest.mark.parametrize(
    ("platform", "busy", "told"),
    [
        (nodes(2), "", "2 with 8 cpus; expected 4 with 8 cpus and equal memory"),
        (nodes(4, 16), "", "4 with 16 cpus"),
        (nodes(memory=GIB), "", "too little memory: 1024 MiB on a node; expected 4096 or more"),
        (nodes(), "there are other jobs, 7.0 for one", "the pool is not idle: there are other jobs, 7.0 for one"),
    ],
)
def test_a_pool_that_is_another_one_is_refused_before_anything_runs(platform, busy, told):
    gangs = Gangs(Virtual(), platform=platform)
    gangs.busy = busy
    with pytest.raises((UsageError, BackfillError), match=told):
        reproduce(PoolAsked(), gangs, Virtual)
    assert not gangs.started


@pytest.mark.parametrize(
    "problem", [GangFailed("job 7.0 of LU.A.4 did not run to its end: cancelled"), KeyboardInterrupt()]
)
def test_nothing_is_left_behind(problem):
    clock = Virtual()
    gangs = Gangs(clock, fails={60: problem})
    expected = BackfillError if isinstance(problem, GangFailed) else KeyboardInterrupt
    with pytest.raises(expected):
        reproduce(PoolAsked((IBB,), 1, scale=0.02), gangs, lambda: clock)
    assert gangs.started
    assert gangs.removed == 1


def test_a_pool_that_does_not_answer_for_a_moment_is_asked_again():
    clock, log = Virtual(), on_grid(2, 0.02)
    ran = run(Gangs(clock, fails={9: Down("late"), 10: Down("late")}), log, IBB, 0, 0, clock)
    assert (ran.noticed >= ran.decided).all()


def test_a_pool_that_never_answers_again_ends_the_experiment(monkeypatch):
    monkeypatch.setattr(gang_run, "LOST_S", 0.0)
    clock = Virtual()
    gangs = Gangs(clock, fails={look: Down("HTCondor did not answer within 20 s") for look in range(60, 9999)})
    with pytest.raises(BackfillError, match="did not answer within 20 s"):
        reproduce(PoolAsked((IBB,), 1, scale=0.02), gangs, lambda: time_passes(clock))
    assert gangs.removed == 1


def time_passes(clock):
    time.sleep(0.001)
    return clock


def test_a_gang_that_does_not_end_is_named():
    clock, log = Virtual(), on_grid(2, 0.02)
    gangs = Gangs(clock, notice=gang_run.PATIENCE + SECOND)
    with pytest.raises(BackfillError, match=r"did not run .* to its end within 600 s"):
        run(gangs, log, IBB, 0, 0, clock)


@pytest.fixture(scope="module")
def found() -> OnPool:
    clock, progress = Virtual(), []
    clocks = []

    def new():
        clocks.append(clock)
        clock.t = 0
        return clock

    done = reproduce(
        PoolAsked(replications=2, scale=0.02, cycle_s=3.0),
        Gangs(clock, 15 * TENTH, 2 * TENTH),
        new,
        lambda done, of: progress.append((done, of)),
    )
    assert progress[-1] == (540, 540)
    assert progress == sorted(progress)
    return done


def test_the_four_claims_are_judged_measured_and_simulated_in_both_readings(found):
    ids = [claim.id for claim in found.reproduction.claims]
    assert len(ids) == len({*ids}) == 20
    assert ids[:2] == ["F1.5a, measured", "F1.5a, wait alone, measured"]
    assert "F1.5d, one pass per cycle, simulated" in ids
    assert {claim.verdict for claim in found.reproduction.claims} <= {"holds", "contradicted", "undecided"}
    for real, again in zip(
        *found.table[WAIT].values(), strict=True
    ):  # the pool is as regular, but for a tenth of a look
        assert again.mean == pytest.approx(real.mean, rel=0.1)


def test_the_output_has_every_run_and_a_verdict_of_each_claim(found, tmp_path):
    write(found.reproduction, tmp_path)
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert {claim["verdict"] for claim in claims} <= {"holds", "contradicted", "undecided"}
    page = (tmp_path / "index.html").read_text()
    assert "One pass per cycle: IBB decides only at multiples of 3 s" in page
    assert (tmp_path / "pool-dead-time-s.csv").read_text().count("\n") == 11
    assert len(found.runs) == 2 * 5 * 2
    assert all(len(each["jobs"]) == 54 for each in found.runs)
    assert found.table[ibb_pool_runs.DEAD]["measured"][0].mean == pytest.approx(1.7, abs=0.1)


def test_without_fcfs_no_claim_is_judged_and_the_page_says_why(tmp_path):
    clock = Virtual()
    found = reproduce(PoolAsked((IBB,), 1, scale=0.02, cycle_s=0), Gangs(clock), lambda: clock)
    assert not found.reproduction.claims
    assert any("they need FCFS and best-fit too" in text for text in found.reproduction.setting)
    assert [*found.names] == [IBB]


def test_the_claim_about_the_wait_alone_leaves_the_response_out():
    sweep = ibb_claims.Sweep({54: [{
        policy: {WAIT: wait, RESPONSE: 100 + wait, "unevenness": 1.0, "mean_running_jobs": 2.0, "wait_of_largest": 1.0}
        for policy, wait in ((FCFS, 40.0 + seed), (IBB, 10.0), (BEST_FIT, 10.0))
    } for seed in range(3)]})  # fmt: skip
    both = ibb_claims.of_54_jobs(sweep, IBB)[0]
    alone = ibb_claims.of_54_jobs(sweep, IBB, (WAIT,))[0]
    assert (both.verdict, alone.verdict) == ("contradicted", "holds")
    assert ibb_pool.REPLICATIONS == 3
