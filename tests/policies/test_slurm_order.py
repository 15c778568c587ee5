"""order=multifactor: EASY and first-fit over a site's priorities, as their twins with the twin of the priorities."""

import random
from dataclasses import replace

import numpy as np
import pytest

from backfill import simulate
from backfill.loading import load
from backfill.model.errors import UsageError
from backfill.model.platform import Platform
from backfill.model.slurm_site import Association, SlurmSite
from backfill.model.units import SECOND
from backfill.model.workload import Jobs, Labels, Workload
from tests.reference import world
from tests.reference.easy import first_fit, one_reservation, several_reservations
from tests.reference.multifactor import Multifactor, Site
from tests.reference.words import Job
from tests.reference.words import Platform as Machine

CPUS = 8
SITE = Site(accounts=(3, 1, 2), users=((0, 1), (0, 2), (1, 1), (2, 1), (2, 1)), age=700, fair=5000, longest_age=7200,
            half_life=3600)  # fmt: skip
PASSES = {
    "easy": lambda view, queue: one_reservation(view, queue, None),
    "easy:tried=sjf": lambda view, queue: one_reservation(view, queue, "sjf"),
    "first-fit": first_fit,
    "k-reservations:k=3": lambda view, queue: several_reservations(view, queue, None, 3),
}


def drawn(seed: int) -> list[Job]:
    dice, at, jobs = random.Random(seed), 0, list[Job]()
    for row in range(60):
        at += dice.choice([0, 1, 40, 200, 500]) * SECOND
        limit = dice.choice([60, 300, 900, 3600])
        jobs.append(Job(row=row, submit=at, runtime=dice.randint(1, limit) * SECOND, walltime=limit * SECOND,
                        tasks=dice.choice([1, 1, 2, 4, 8]), user=dice.randrange(5), name=str(row)))  # fmt: skip
    return jobs


def as_site() -> SlurmSite:
    accounts = [Association(f"a{i}", parent=0, shares=shares) for i, shares in enumerate(SITE.accounts)]
    users = [Association(f"a{account}", f"u{i}", parent=1 + account, shares=shares)
             for i, (account, shares) in enumerate(SITE.users)]  # fmt: skip
    config = {
        "accountingstoragetype": "accounting_storage/slurmdbd",
        "prioritytype": "priority/multifactor",
        "priorityweightage": str(SITE.age),
        "priorityweightfairshare": str(SITE.fair),
        "prioritymaxage": "02:00:00",
        "prioritydecayhalflife": "01:00:00",
        "prioritycalcperiod": "00:05:00",
    }
    return SlurmSite(config=config, associations=(Association("root"), *accounts, *users))


def as_log(jobs: list[Job]) -> Workload:
    def column(name: str) -> np.ndarray:
        return np.array([getattr(job, name) for job in jobs], np.int64)

    return Workload(
        Jobs(
            job=np.array([job.name for job in jobs]),
            submit=column("submit"),
            runtime=column("runtime"),
            walltime=column("walltime"),
            tasks=column("tasks"),
            user=Labels.of([f"u{job.user}" for job in jobs]),
            group=Labels.of([f"a{SITE.users[job.user][0]}" for job in jobs]),
        )
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name.startswith("k-") else ()) for name in PASSES
    ],  # it compiles long
)
def test_the_starts_are_those_of_the_twins(name):
    for seed in range(6):
        jobs, ranks = drawn(seed), Multifactor(SITE, lambda job: job.user)
        expected = world.run(
            jobs,
            Machine.pool(CPUS),
            lambda view, ranks=ranks: ranks.with_timers(view, PASSES[name](view, ranks.rank(view))),
        )
        result = simulate(
            as_log(jobs),
            replace(Platform.pool(CPUS), slurm=as_site()),
            f"{name}{',' if ':' in name else ':'}order=multifactor",
        )
        assert result.schedule.start.tolist() == [row.start for row in expected], seed
        plain = simulate(as_log(jobs), Platform.pool(CPUS), name)
        assert (plain.schedule.start != result.schedule.start).any()
        assert result.verify() == []


def test_without_a_site_the_order_is_that_of_the_priorities_in_the_log():
    log = as_log(drawn(7))
    log = replace(log, jobs=log.jobs.replace(priority=np.arange(60) % 7.0))
    mine, other = (simulate(log, Platform.pool(CPUS), name) for name in ("easy:order=multifactor", "easy-priority"))
    assert (mine.schedule.start == other.schedule.start).all()
    assert mine.name == "easy:order=multifactor"


def test_other_policies_do_not_take_the_order():
    with pytest.raises(
        UsageError, match="conservative takes no order=multifactor; expected easy, first-fit, k-reservations"
    ):
        load("conservative:order=multifactor")
    with pytest.raises(UsageError, match="policy first-fit has no parameter 'tried'"):
        load("first-fit:tried=sjf,order=multifactor")
