"""A job of HTCondor is kept from starting by its requirements, and let go once on one slot."""

from types import SimpleNamespace

import pytest

from backfill.client import control_htcondor as control
from backfill.client.finding import FAIL, OK, WARN
from backfill.pools import htcondor_pin as pins
from backfill.pools.htcondor import HTCondorReader, Slot, job_of
from backfill.pools.htcondor import Site as Known
from backfill.pools.htcondor_hands import HTCondorHands
from backfill.pools.htcondor_setup import htcondor_setup
from backfill.pools.marks import OTHER, mark_of
from backfill.pools.setup import SETUPS, Site

classad2 = pytest.importorskip("classad2", reason="needs the extra htcondor")
acts = pytest.importorskip("backfill.pools.htcondor_acts", reason="needs the extra htcondor")
places = pytest.importorskip("backfill.pools.htcondor_places", reason="needs the extra htcondor")

IDLE, RUNS, HELD = 1, 2, 5
USERS = "TARGET.Memory >= RequestMemory"

VERSION = "$CondorVersion: 23.9.6 2026-07-12 $"


class Schedd:
    """One of a few lines: jobs are dicts of expressions."""

    def __init__(self, monkeypatch):
        self.jobs, self.done, self.broken = {}, [], False
        monkeypatch.setattr(acts, "schedd_at", lambda collector, name: {"CondorVersion": VERSION})
        monkeypatch.setattr(acts, "itself", lambda at: {"DaemonStartTime": 7})
        action = SimpleNamespace(Remove="remove", VacateFast="vacate")
        fake = SimpleNamespace(
            Collector=lambda at: None, Schedd=lambda at: self, JobAction=action, HTCondorException=RuntimeError
        )  # fmt: skip
        monkeypatch.setattr(acts, "htcondor2", fake)

    def job(self, number, status=IDLE, **more):
        cluster, process = map(int, number.split("."))
        self.jobs[number] = {
            "ClusterId": cluster,
            "ProcId": process,
            "JobStatus": status,
            "Requirements": USERS,
            **more,
        }

    def query(self, condition, names):
        ads = [self.ad(number) for number in self.jobs]
        return [ad for ad in ads if classad2.ExprTree(condition).eval(scope=ad) is True]

    def ad(self, number):
        return classad2.ClassAd("".join(f"{name} = {value}; " for name, value in self.jobs[number].items()).join("[]"))

    def edit(self, jobs, name, value):
        if self.broken:
            raise RuntimeError("Failed to connect to schedd.")
        if gone := [job for job in jobs if job not in self.jobs]:
            raise RuntimeError(f"Modifying attribute {name} in nonexistent job {gone[0]}")
        self.done.append((name, *jobs))
        for job in jobs:
            self.jobs[job][name] = value

    def act(self, action, jobs, reason):
        self.done.append((action, *jobs))

    def reschedule(self):
        self.done.append(("reschedule",))

    def do(self, what, *jobs, texts=()):
        act = {"collector": "", "schedd": "", "timeout": 9.0, "do": what, "mark": "backfill-1", "jobs": [*jobs]}
        return acts.answer({**act, "texts": [*texts]})


@pytest.fixture
def schedd(monkeypatch):
    return Schedd(monkeypatch)


def slot(name, **more):
    return classad2.ClassAd({"Name": name, "Memory": 1000, "Cpus": 4, **more})


def takes(ad, where):
    return ad.lookup("Requirements").eval(scope=ad, target=where) is True


def test_an_adopted_job_starts_nowhere_and_a_pinned_one_on_its_slot_once(schedd):
    schedd.job("7.0", RequestMemory=100)
    schedd.do("adopt", "7.0")
    here, there = slot("slot1@n1@pool.org"), slot("slot1@n2@pool.org")
    assert not takes(schedd.ad("7.0"), here)
    schedd.do("start", "7.0", texts=[pins.pin(0, "slot1@n1@pool.org")])
    assert schedd.done[-1] == ("reschedule",)
    assert [takes(schedd.ad("7.0"), one) for one in (here, there, slot("slot1_3@n1@pool.org"))] == [True, False, True]
    assert not takes(schedd.ad("7.0"), slot("slot1@n1@pool.org", Memory=10))  # its user's requirements hold as well
    schedd.jobs["7.0"]["NumShadowStarts"] = 1  # it has begun, and was put back
    assert not takes(schedd.ad("7.0"), here)
    schedd.do("start", "7.0", texts=[pins.pin(1, "slot1@n1@pool.org")])
    assert takes(schedd.ad("7.0"), here)
    schedd.do("undo", "7.0")
    assert not takes(schedd.ad("7.0"), here)


def test_a_machine_takes_a_job_of_the_queue_only_where_it_is_pinned():
    start = classad2.ExprTree(pins.OF_SLOT)
    job = classad2.ClassAd({pins.QUEUE: "backfill-1"})
    assert start.eval(scope=slot("slot1@n1"), target=job) is not True
    job[pins.PIN] = pins.pin(3, "slot1@n1")
    assert start.eval(scope=slot("slot1@n1"), target=job) is True
    assert start.eval(scope=slot("slot1_2@n1"), target=job) is True
    assert start.eval(scope=slot("slot1@n2"), target=job) is False


def test_adoption_marks_first_again_is_harmless_and_the_way_back_is_whole(schedd):
    schedd.job("7.0"), schedd.job("7.1", HELD), schedd.job("8.0", RUNS), schedd.job("9.0", Requirements="true")
    before = {number: dict(job) for number, job in schedd.jobs.items()}
    schedd.do("adopt", "7.0", "7.1", "8.0", "9.0", "99.0")
    assert schedd.done[0] == (pins.QUEUE, "7.0", "7.1", "9.0")
    guarded = {number: dict(job) for number, job in schedd.jobs.items()}
    assert guarded["8.0"] == before["8.0"]
    schedd.do("adopt", "7.0")
    assert schedd.jobs == guarded
    schedd.do("start", "7.0", texts=["0 slot1@n1"])
    schedd.do("adopt", "7.0")  # its pin goes
    assert not takes(schedd.ad("7.0"), slot("slot1@n1"))
    schedd.do("release", "7.0", "7.1", "9.0")
    for number, job in before.items():
        left = {name: value for name, value in schedd.jobs[number].items() if value != "undefined"}
        assert left.keys() == job.keys()
        assert str(classad2.ExprTree(left["Requirements"])) == str(classad2.ExprTree(job["Requirements"]))


def test_a_job_that_is_not_there_is_passed_over_and_a_schedd_that_is_not_there_is_not(schedd):
    schedd.job("7.0"), schedd.job("7.1")
    schedd.do("undo", "7.0", "8.0", "7.1")
    assert schedd.done == [(pins.PIN, "7.0"), (pins.PIN, "7.1")]
    schedd.broken = True
    with pytest.raises(RuntimeError, match="connect"):
        schedd.do("undo", "7.0")


def test_a_comment_is_a_text_that_users_can_read(schedd):
    schedd.job("7.0")
    schedd.do("comment", "7.0", texts=['mine "x"[backfill:start=2026-11-25T16:30]'])
    assert schedd.ad("7.0")[pins.COMMENT] == 'mine "x"[backfill:start=2026-11-25T16:30]'
    assert job_of(AD | {pins.COMMENT: "mine"}, Known()).comment == "mine"


def test_jobs_are_ended_or_put_back(schedd):
    schedd.do("remove", "7.0")
    schedd.do("vacate", "8.0")
    assert schedd.done == [("remove", "7.0"), ("vacate", "8.0")]
    assert schedd.do("instance") == {"instance": "7", "version": VERSION}


@pytest.mark.parametrize(
    ("requirements", "picky"),
    [("true", False), ("TARGET.Memory >= RequestMemory", False), ('TARGET.Machine == "n1"', True),
     ("TARGET.Memory >= 3000", True), ("TARGET.NoSuch", True)],
)  # fmt: skip
def test_a_job_that_does_not_take_every_node_with_room_for_it_is_left_to_htcondor(requirements, picky, monkeypatch):
    slots = [
        {
            "PartitionableSlot": True,
            "Memory": 10,
            "TotalSlotMemory": 2000,
            "Cpus": 0,
            "TotalSlotCpus": 4,
            "Machine": one,
        }
        for one in ("n1", "n2")
    ]
    large = {"PartitionableSlot": True, "Memory": 9, "TotalSlotMemory": 9000, "Cpus": 1, "TotalSlotCpus": 1}
    collector = SimpleNamespace(query=lambda kind, condition, names: [classad2.ClassAd(one) for one in [*slots, large]])
    ad = classad2.ClassAd(f"[JobStatus = 1; RequestCpus = 2; RequestMemory = 1000; Requirements = {requirements}]")
    places.Places().judge(collector, [ad])
    assert ad[pins.PICKY] is picky
    guarded = classad2.ClassAd(
        f"[JobStatus = 1; RequestCpus = 2; RequestMemory = 1000; {pins.BEFORE} = {requirements};"
        f"Requirements = {pins.guarded(requirements)}]"
    )
    places.Places().judge(collector, [guarded])
    assert guarded[pins.PICKY] is picky


AD = {"ClusterId": 7, "ProcId": 0, "QDate": 1795563812, "JobStatus": 1, "JobUniverse": 5, "Requirements": "true"}
GUARDED = {pins.QUEUE: "backfill-1", "Requirements": pins.guarded("true")}


def test_whose_a_job_is_and_whether_it_may_start():
    site = Known(mark="backfill-1")
    told = [
        job_of(AD | more, site)
        for more in (
            {}, GUARDED, GUARDED | {pins.PIN: "0 slot1@n1"}, GUARDED | {pins.PIN: "0 slot1@n1", pins.STARTS: 1},
            GUARDED | {"Requirements": "true"}, {pins.QUEUE: "backfill-2"},
        )
    ]  # fmt: skip
    assert [(job.managed, job.held, job.blocked) for job in told] == [
        (False, False, ""), (True, True, ""), (True, False, ""), (True, True, ""), (True, False, ""),
        (False, False, OTHER),
    ]  # fmt: skip
    assert job_of(AD | {pins.PICKY: True}, site).own
    assert job_of(AD | {"JobUniverse": 11}, site).own


def test_a_pin_says_the_slot_of_a_node_and_how_often_the_job_has_begun(tmp_path, monkeypatch):
    reader = HTCondorReader(home=tmp_path)
    reader._ads = {"7.0": AD | {pins.STARTS: 2}, "8.0": AD}
    reader._site = Known(slots={"slot1@n1@pool": Slot("n1@pool", False)}, mark=mark_of(tmp_path))
    asked = []
    client = SimpleNamespace(ask=lambda act: asked.append(act) or {"instance": "7"})
    hands = HTCondorHands(tmp_path, reader, client)
    hands.start([("7.0", ["n1@pool"]), ("8.0", ["n1@pool"]), ("9.0", ["n1@pool"]), ("8.0", ["gone"])])
    told = dict(zip(asked[0]["jobs"], asked[0]["texts"], strict=True))
    assert told == {"7.0": "2 slot1@n1@pool"}
    assert (asked[0]["do"], asked[0]["mark"], reader._edited) == ("start", mark_of(tmp_path), {7})
    hands.stop([("7.0", True), ("8.0", False)])
    assert [(act["do"], act["jobs"]) for act in asked[1:]] == [("vacate", ["7.0"]), ("remove", ["8.0"])]
    assert hands.instance() == "7"


def test_what_a_site_sets(tmp_path):
    parts = htcondor_setup(tmp_path, "queue", ["ann", "bob"])
    assert 'member(Owner, {"ann", "bob"})' in parts["submit"]
    assert mark_of(tmp_path) in parts["submit"]
    assert "\\" not in parts["submit"] + parts["machines"]  # settings and edits read them in two ways
    site = Site(
        tmp_path, "queue", 990, ["/opt/backfill"], {}, environment={"CONDOR_CONFIG": "/etc/condor/condor_config"}
    )
    found = SETUPS["htcondor"](site)
    assert {"submit", "machines", "negotiator", "rights", "unit", "watchdog"} == found.keys()
    assert "Environment=CONDOR_CONFIG=/etc/condor/condor_config" in found["unit"]


def test_doctor_says_what_of_it_is_missing(tmp_path):
    parts, mark = htcondor_setup(tmp_path), mark_of(tmp_path)
    told = {
        "PROTECTED_JOB_ATTRS": "BFQueue, BFTarget BFRequirements", "JOB_TRANSFORM_BACKFILL": parts["submit"],
        "NEGOTIATOR_CYCLE_DELAY": "1",
    }  # fmt: skip
    whole = [
        control.rights("condor@example.org"), control.handed(told, mark, False), control.protected(told),
        control.machines([parts["machines"]] * 2), control.delay(told),
    ]  # fmt: skip
    assert {finding.verdict for finding in whole} == {OK}
    bare = [
        control.rights("ann@example.org"), control.handed({}, mark, False), control.handed({}, mark, True),
        control.protected({}), control.machines(["true", parts["machines"]]), control.delay({}),
    ]  # fmt: skip
    assert [finding.verdict for finding in bare] == [FAIL, FAIL, WARN, WARN, WARN, WARN]
    assert "1 of 2 slots" in bare[4].told
    assert "20 s" in bare[5].told
