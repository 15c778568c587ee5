"""A long queue is not told as a whole each time: what is told instead leads to the same jobs."""

import random
from types import SimpleNamespace

import pytest

from tests.shares import seeds

classad2 = pytest.importorskip("classad2", reason="needs the extra htcondor")
client = pytest.importorskip("backfill.pools.htcondor_client", reason="needs the extra htcondor")

IDLE, RUNS, HELD = 1, 2, 5
REQUEST = {"collector": "", "schedd": "", "machine": "", "timeout": 9.0, "limits": False, "history": "", "since": "",
           "start": 0, "recall": [], "edited": [], "places": False}  # fmt: skip


class FakePool:
    """A schedd of a few lines, that judges conditions as HTCondor does."""

    def __init__(self):
        self.jobs, self.now, self.number, self.instance, self.asked = {}, 1000, 0, 7, []

    def submit(self, many=1, dated=0):
        for _ in range(many):
            self.number += 1
            self.jobs[self.number] = {"ClusterId": self.number, "ProcId": 0, "QDate": self.now - dated, "JobPrio": 0,
                                      "JobUniverse": 5, "JobStatus": IDLE,
                                      "EnteredCurrentStatus": self.now - dated}  # fmt: skip

    def turn(self, number, status):
        self.jobs[number] |= {"JobStatus": status, "EnteredCurrentStatus": self.now}

    def query(self, constraint, projection=(), opts=None):
        ads = [classad2.ClassAd({**ad, "ServerTime": self.now}) for ad in self.jobs.values()]
        holds = classad2.ExprTree(constraint)
        found = [ad for ad in ads if holds.eval(ad) is True]
        self.asked.append(len(found))
        return [{"Idle": len(found)}] if opts == "summary" else found

    def seen(self):
        return {f"{number}.0": ad for number, ad in self.jobs.items()}


@pytest.fixture
def pool(monkeypatch):
    found = FakePool()

    def itself(at):
        return {"Name": "here", "DaemonStartTime": found.instance, "MyCurrentTime": found.now}

    for name, what in {
        "htcondor2": SimpleNamespace(
            Collector=lambda at: None,
            Schedd=lambda at: found,
            QueryOpt=SimpleNamespace(SummaryOnly="summary"),
            HTCondorException=RuntimeError,
        ),
        "schedd_at": lambda collector, name: None,
        "itself": itself,
        "_slots": lambda *given: [],
        "_is_young": lambda collector: False,
    }.items():
        monkeypatch.setattr(client, name, what)
    return found


def told(asking, known):
    """The jobs by an answer, and by those before it."""
    answer = asking.answer(REQUEST)
    if answer["whole"]:
        known.clear()
    for job in answer["gone"]:
        del known[job]
    known |= {f"{ad['ClusterId']}.{ad['ProcId']}": ad for ad in answer["jobs"]}
    return known


@seeds(20, here=4)
def test_what_is_told_of_a_long_queue_is_what_is_there(pool, seed):
    dice = random.Random(seed)
    asking, known = client.Pool(), {}
    pool.submit(700)
    few = 0
    for _ in range(30):
        pool.asked.clear()
        assert told(asking, known) == pool.seen()
        few += max(pool.asked[::2], default=0) < 100
        pool.now += dice.choice((0, 1, 20))
        for _ in range(dice.choice((0, 1, 5))):
            number = dice.choice([*pool.jobs])
            what = dice.choice(("submit", "late", "remove", IDLE, RUNS, HELD))
            if what == "submit":
                pool.submit(3)
            elif what == "late":
                pool.submit(dated=60)  # from a machine whose clock is slow
            elif what == "remove":
                del pool.jobs[number]
            elif what != pool.jobs[number]["JobStatus"]:
                pool.turn(number, what)
    assert few >= 5


def test_a_job_that_is_edited_while_it_is_idle_is_told_when_all_are_asked_for(pool, monkeypatch):
    asking, known = client.Pool(), {}
    pool.submit(600)
    for _ in range(2):
        told(asking, known)
        pool.now += 60
    pool.jobs[5]["JobPrio"] = 9
    assert told(asking, known)["5.0"]["JobPrio"] == 0
    monkeypatch.setattr(client, "ALL_S", -1.0)
    assert told(asking, known)["5.0"]["JobPrio"] == 9


def test_jobs_are_not_taken_from_two_instances(pool, monkeypatch):
    asking = client.Pool()
    pool.submit()
    started = iter((1, 2))
    monkeypatch.setattr(client, "itself", lambda at: {"DaemonStartTime": next(started)})
    with pytest.raises(RuntimeError, match="restarted"):
        asking.answer(REQUEST)


def test_an_expression_is_a_number_where_one_is_needed():
    text = (
        "[RequestMemory = 3 * MemoryUsage; MemoryUsage = 100; PeriodicRemove = JobStatus == 2; RequestGPUs = Nothing]"
    )
    ad = client.plain(classad2.ClassAd(text))
    assert (ad["RequestMemory"], ad["RequestGPUs"]) == (300, None)
    assert ad["PeriodicRemove"].replace(" ", "") == "JobStatus==2"
