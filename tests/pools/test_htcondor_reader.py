"""What the ads of HTCondor mean, as a real one told them, and what a reader makes of one answer after the other."""

import sys
import time

import pytest

from backfill.model.errors import MissingExtra
from backfill.model.platform_file import parse_platform
from backfill.pools import htcondor
from backfill.pools.htcondor import Client, HTCondorReader, Site, Slot, copies, job_of, listed, node_of
from backfill.pools.seen import DOWN, DRAIN, ENDING, OVER, RUNNING, UNKNOWN, UP, WAITING, Down

SECOND, MIB = 1_000_000, 2**20
T = 1795563812
SITE = Site(
    walltime=7 * SECOND,
    slots={"slot1@n1": Slot("n1", False), "slot1@n2": Slot("n2", False), "slot3@s1": Slot("slot3@s1", True)},
    licences={"lic": 2},
)
WAITS = {"ClusterId": 7, "ProcId": 2, "QDate": T, "JobStatus": 1, "JobUniverse": 5, "Owner": "ann", "Cmd": "/bin/sleep",
         "RequestCpus": 2, "RequestMemory": 128, "JobPrio": 3, "MaxHosts": 1, "EnteredCurrentStatus": T}  # fmt: skip
RUNS = WAITS | {"JobStatus": 2, "RemoteHost": "slot1_4@n2", "NumShadowStarts": 1, "JobStartDate": T + 5,
                "JobCurrentStartDate": T + 5, "EnteredCurrentStatus": T + 5}  # fmt: skip
DONE = WAITS | {"JobStatus": 4, "LastJobStatus": 2, "LastRemoteHost": "slot1_4@n2", "NumShadowStarts": 1, "ExitCode": 0,
                "JobStartDate": T + 5, "JobCurrentStartDate": T + 5, "ExitBySignal": False,
                "CompletionDate": T + 9, "EnteredCurrentStatus": T + 9}  # fmt: skip
REMOVED = DONE | {"JobStatus": 3, "CompletionDate": 0, "ExitBySignal": True, "ExitSignal": 15,
                  "RemoveReason": "via condor_rm (by user ann)"}  # fmt: skip
SHARED = {"Name": "slot1@n2", "Machine": "pool.example.org", "SlotType": "Partitionable", "PartitionableSlot": True,
          "Cpus": 1, "Memory": 3872, "TotalSlotCpus": 4, "TotalSlotMemory": 4000, "TotalSlotGPUs": 0,
          "State": "Unclaimed"}  # fmt: skip


def test_a_job_that_waits():
    job = job_of(WAITS | {"AcctGroup": "phys", "RequestGPUs": 1, "AllowedExecuteDuration": 60}, SITE)
    assert (job.identity, job.state, job.blocked) == (("7.2", T * SECOND), WAITING, "")
    assert (job.name, job.user, job.group, job.asked.priority) == ("sleep", "ann", "phys", 3)
    assert job.asked.need == {"cpus": 2, "memory": 128 * MIB, "gpus": 1}
    assert (job.asked.walltime, job.asked.tasks) == (60 * SECOND, 1)
    assert (job.start, job.nodes, job.restarts, job.end, job.ended) == (None, (), 0, None, "")


def test_memory_is_what_a_machine_gives():
    assert job_of(WAITS | {"RequestMemory": 129}, SITE).asked.need["memory"] == 256 * MIB
    assert "memory" not in job_of(WAITS | {"RequestMemory": 0}, SITE).asked.need


def test_a_job_that_runs_is_on_the_node_of_its_slot():
    job = job_of(RUNS, SITE)
    assert (job.state, job.start, list(job.nodes), job.restarts) == (RUNNING, (T + 5) * SECOND, [["n2", 1]], 0)
    assert job.asked == job_of(WAITS, SITE).asked


def test_a_job_on_a_static_slot_has_all_of_it():
    assert list(job_of(RUNS | {"RemoteHost": "slot3@s1"}, SITE).nodes) == [["slot3@s1", 1, True]]


def test_a_parallel_job_is_on_each_of_its_slots():
    hosts = "slot1_4@n2,slot1_1@n1,slot1_7@n2"
    job = job_of(RUNS | {"JobUniverse": 11, "MaxHosts": 3, "RemoteHosts": hosts}, SITE)
    assert (job.asked.tasks, sorted(job.nodes)) == (3, [["n1", 1], ["n2", 2]])
    over = job_of(DONE | {"JobUniverse": 11, "MaxHosts": 3, "RemoteHosts": hosts}, SITE, over=True)
    assert sorted(over.nodes) == sorted(job.nodes)


def test_a_job_that_has_just_ended_ran_where_its_slot_still_is():
    ends = RUNS | {"JobStatus": 4, "LastJobStatus": 2, "ExitCode": 0, "ExitBySignal": False, "CompletionDate": T + 9}
    job = job_of(ends, SITE)
    assert (job.state, job.ended, list(job.nodes)) == (OVER, "COMPLETED", [["n2", 1]])
    again = ends | {"LastRemoteHost": "slot1_9@n1"}  # of a run before this one
    assert list(job_of(again, SITE).nodes) == [["n2", 1]]


def test_for_a_moment_it_is_not_known_where_a_job_runs():
    job = job_of({name: value for name, value in RUNS.items() if name != "RemoteHost"}, SITE)
    assert (job.state, list(job.nodes)) == (RUNNING, [])


def test_the_states_of_a_job():
    assert job_of(RUNS | {"JobStatus": 6}, SITE).state == ENDING
    assert job_of(RUNS | {"JobStatus": 7}, SITE).state == RUNNING
    stops = [job_of(RUNS | {"JobStatus": status}, SITE) for status in (3, 5)]
    assert [(job.state, list(job.nodes)) for job in stops] == [(ENDING, [["n2", 1]])] * 2
    assert job_of(DONE, SITE).state == OVER  # it stays in the queue, as its owner wants


def test_a_held_job_says_why_it_waits():
    held = {"JobStatus": 5, "HoldReason": "via condor_hold (by user ann)"}
    assert job_of(WAITS | held, SITE).blocked == "via condor_hold (by user ann)"
    assert job_of(WAITS | held | {"HoldReason": ""}, SITE).blocked == "Held"


def test_a_job_that_was_put_back_waits_again_and_its_restarts_are_counted():
    again = WAITS | {"NumShadowStarts": 1, "JobCurrentStartDate": T + 5, "LastRemoteHost": "slot1_4@n2"}
    job = job_of(again, SITE)
    assert (job.state, job.start, job.nodes, job.restarts) == (WAITING, None, (), 1)
    assert job_of(RUNS | {"NumShadowStarts": 2}, SITE).restarts == 1


def test_a_deferred_job_may_not_start_before():
    assert job_of(WAITS | {"DeferralTime": T + 100}, SITE).begin == (T + 100) * SECOND
    assert job_of(WAITS, SITE).begin is None


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({}, 7),
        ({"MaxWallTimeMins": 2}, 120),
        ({"BFWallTime": 30}, 30),
        ({"PeriodicRemove": "JobStatus == 2 && time() - EnteredCurrentStatus > BFWallTime", "BFWallTime": 9}, 9),
        ({"PeriodicRemove": "(JobStatus == 2) && (time() - EnteredCurrentStatus) > (2 * 3600)"}, 7200),
        ({"PeriodicHold": "NumJobStarts > 5 || (CurrentTime - JobCurrentStartDate) >= 24 * 60 * MY.JobPrio"}, 4320),
        ({"PeriodicRemove": "JobStatus == 5 && time() - EnteredCurrentStatus > 600"}, 7),  # that is of held ones
        ({"PeriodicRemove": "JobStatus == 2 && time() - EnteredCurrentStatus > Unknown"}, 7),
        ({"AllowedExecuteDuration": 1e300}, 7),
    ],
)
def test_the_walltime_of_a_job(said, seconds):
    assert job_of(WAITS | said, SITE).asked.walltime == seconds * SECOND


def test_licences_are_asked_for_where_they_are_limited():
    job = job_of(WAITS | {"ConcurrencyLimits": "Lic:2,other"}, SITE)
    assert job.asked.need == {"cpus": 2, "memory": 128 * MIB, "lic": 2}


def test_how_a_job_ended():
    done, failed = (job_of(DONE | {"ExitCode": code}, SITE, over=True) for code in (0, 3))
    assert (done.state, done.ended, done.exit, done.signal) == (OVER, "COMPLETED", 0, None)
    assert (done.start, done.end, list(done.nodes)) == ((T + 5) * SECOND, (T + 9) * SECOND, [["n2", 1]])
    assert (failed.ended, failed.exit) == ("FAILED", 3)
    killed = job_of(DONE | {"ExitBySignal": True, "ExitSignal": 9, "ExitCode": None}, SITE, over=True)
    assert (killed.ended, killed.exit, killed.signal) == ("FAILED", None, 9)
    assert (killed.restarts, done.restarts) == (0, 0)


def test_a_job_that_was_removed():
    ran = job_of(REMOVED, SITE, over=True)
    assert (ran.ended, ran.exit, ran.signal) == ("CANCELLED", None, None)
    assert (ran.start, ran.end, list(ran.nodes)) == ((T + 5) * SECOND, (T + 9) * SECOND, [["n2", 1]])
    for before in (1, 5):  # it had run once, and waited again
        waited = job_of(REMOVED | {"LastJobStatus": before}, SITE, over=True)
        assert (waited.ended, waited.start, waited.nodes, waited.restarts) == ("CANCELLED", None, (), 1)


def test_a_job_that_was_removed_for_its_length():
    reason = "The job attribute PeriodicRemove expression '...' evaluated to TRUE"
    long = REMOVED | {"BFWallTime": 4, "RemoveReason": reason}
    assert job_of(long, SITE, over=True).ended == "TIMEOUT"
    assert job_of(long | {"BFWallTime": 5}, SITE, over=True).ended == "CANCELLED"
    assert job_of(long | {"RemoveReason": "via condor_rm"}, SITE, over=True).ended == "CANCELLED"


def test_values_that_no_job_can_have_do_not_stop_the_look():
    strange = {"RequestCpus": 2**60, "RequestMemory": -5, "DeferralTime": -1, "JobPrio": 2**70,
               "ConcurrencyLimits": "lic:x", "RequestGPUs": float("nan"), "BFWallTime": 2**62}  # fmt: skip
    job = job_of(WAITS | strange, SITE)
    assert (job.asked.need["cpus"], job.asked.walltime, job.begin) == (2**40, 7 * SECOND, None)


def nodes(*slots, machine="", held=None):
    return [node_of(ad, node, held or {}) for ad, node in listed(slots, machine)]


def test_a_machine_that_is_shared_out_is_a_node():
    (node,) = nodes(SHARED, held={"cpus": 3, "gpus": 0})
    assert (node.name, node.there, node.state) == ("n2", {"cpus": 4, "memory": 4000 * MIB}, UP)
    assert node.held == {"cpus": 3}


def test_each_static_slot_is_a_node_as_a_job_gets_one():
    static = {"Name": "slot2@s1", "SlotType": "Static", "Cpus": 2, "Memory": 512, "State": "Claimed"}
    found = nodes(static, static | {"Name": "slot10@s1"}, SHARED)
    assert [node.name for node in found] == ["n2", "slot2@s1", "slot10@s1"]
    assert found[1].there == {"cpus": 2, "memory": 512 * MIB}


def test_machines_are_called_by_an_attribute_where_several_startds_share_a_host():
    ad = SHARED | {"Name": "slot1@startd7@pool.example.org", "BFMachine": "n7"}
    (node,) = nodes(ad, machine="BFMachine")
    assert node.name == "n7"
    assert [slot["name"] for slot, _ in listed([ad], "BFMachine")] == ["slot1@startd7@pool.example.org"]
    assert nodes(ad)[0].name == "startd7@pool.example.org"


def test_the_states_of_a_node():
    drained = SHARED | {"State": "Drained", "Draining": True, "DrainReason": "by root"}
    assert [(node.state, node.reason) for node in nodes(drained)] == [(DRAIN, "by root")]
    assert [node.state for node in nodes(SHARED | {"Draining": True})] == [DRAIN]
    assert [node.state for node in nodes(SHARED | {"Offline": True})] == [DOWN]


def test_the_copies_of_licences():
    said = {"LIC_LIMIT": "2", "BIG_LIMIT": "$(X)", "ARC_GAHP_COMMAND_LIMIT": "1000", "CPUS_LIMIT": "3",
            "CONCURRENCY_LIMIT_DEFAULT": "2308032", "CONCURRENCY_LIMIT_DEFAULT_DB": "5"}  # fmt: skip
    assert copies(said, {"lic", "other", "db.write"}) == {"lic": 2, "db.write": 5}
    assert copies(said | {"CONCURRENCY_LIMIT_DEFAULT": "7"}, {"other"}) == {"lic": 2, "other": 7}


# ---------------------------------------------------------------------- one answer after the other


class Told(Client):
    """A client that says what it is to say."""

    def __init__(self):
        super().__init__()
        self.answers, self.requests, self.running = [], [], False

    @property
    def runs(self):
        return self.running

    def ask(self, request):
        self.requests.append(request)
        self.running = True
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self):
        self.running = False


@pytest.fixture
def reader(monkeypatch):
    monkeypatch.setattr(htcondor, "find_spec", lambda name: name)
    found = HTCondorReader(walltime=7 * SECOND)
    found._client = Told()
    return found


def answer(*jobs, gone=(), whole=False, slots=(SHARED, SHARED | {"Name": "slot1@n1"}), **other):
    return {"instance": "5", "schedd": "here", "now": T, "whole": whole, "jobs": list(jobs), "gone": list(gone),
            "slots": list(slots), "young": False, **other}  # fmt: skip


def job(number, **other):
    return WAITS | {"ClusterId": number, "ProcId": 0, **other}


def test_what_has_not_changed_is_the_very_same_object(reader):
    begun = RUNS | {"ClusterId": 2, "ProcId": 0}
    reader._client.answers = [
        answer(job(1), job(2), whole=True, history=[]),
        answer(begun, gone=["2.0"]),
        answer(whole=True, slots=()),  # by a client that was started anew
        answer(job(1), begun, whole=True),
    ]
    first, second, third, last = (reader.look() for _ in range(4))
    jobs = [{job.native: job for job in look.jobs} for look in (first, second, third, last)]
    assert jobs[0].keys() == jobs[1].keys() == jobs[3].keys() == {"1.0", "2.0"}
    assert jobs[2].keys() == set()
    assert jobs[1]["1.0"] is jobs[0]["1.0"]
    assert (jobs[1]["2.0"].state, list(jobs[1]["2.0"].nodes)) == (RUNNING, [["n2", 1]])
    assert {node.name: node.held for node in second.nodes} == {"n1": {}, "n2": {"cpus": 2, "memory": 128 * MIB}}
    assert (first.instance, first.complete) == ("5", True)


def test_a_number_that_came_back_is_another_job(reader):
    reader._client.answers = [answer(job(1), whole=True, history=[]), answer(job(1, QDate=T + 60), gone=["1.0"])]
    first, second = reader.look(), reader.look()
    assert [job.identity for job in (*first.jobs, *second.jobs)] == [("1.0", T * SECOND), ("1.0", (T + 60) * SECOND)]


def test_a_job_that_left_the_queue_is_told_once_with_its_end(reader):
    old, ended = DONE | {"ClusterId": 3}, DONE | {"ClusterId": 1, "ProcId": 0}
    reader._client.answers = [
        answer(job(1), whole=True, history=[old]),
        answer(job(1), whole=True, history=[ended]),  # it ended after the queue was told, and before the history was
        answer(gone=["1.0"], history=[]),
    ]
    first, second, third = (reader.look() for _ in range(3))
    assert [(job.native, job.state) for job in first.jobs] == [("1.0", WAITING)]
    assert [(job.native, job.state, job.ended) for job in second.jobs] == [("1.0", OVER, "COMPLETED")]
    assert list(third.jobs) == []
    since = [request["since"] for request in reader._client.requests]
    assert since == ["", *(f"ClusterId == {c} && ProcId == {p} && QDate == {T}" for c, p in ((3, 2), (1, 0)))]
    assert [request["history"] for request in reader._client.requests] == ["newest", "", ""]


def test_a_client_that_was_lost_costs_no_end(reader):
    reader._client.answers = [answer(job(1), whole=True, history=[]), Down("gone"), answer(whole=True, history=[])]
    reader.look()
    with pytest.raises(Down, match="gone"):
        reader.look()
    reader.close()
    reader.look()
    assert [request["history"] for request in reader._client.requests] == ["newest", "", "all"]


def test_a_machine_that_the_collector_has_lost_is_down_unless_the_collector_is_new(reader):
    only = (SHARED | {"Name": "slot1@n1"},)
    reader._client.answers = [
        answer(whole=True, history=[]),
        answer(slots=only),
        answer(slots=only, young=True),
        answer(slots=(*only, SHARED | {"Name": "slot1@late"})),
        answer(),
    ]
    states = [{node.name: node.state for node in reader.look().nodes} for _ in range(5)]
    assert states[0] == {"n1": UP, "n2": UP}
    assert states[1] == {"n1": UP, "n2": DOWN}
    assert states[2] == {"n1": UP, "n2": UNKNOWN}
    assert states[3] == {"n1": UP, "n2": DOWN, "late": UP}
    assert states[4] == {"n1": UP, "n2": UP}  # one that came later may go


def test_what_jobs_of_other_schedds_hold_is_held(reader):
    foreign = {"Name": "slot1_9@n2", "DynamicSlot": True, "SlotType": "Dynamic", "Cpus": 1, "Memory": 100,
               "GlobalJobId": "there#4.0#1"}  # fmt: skip
    mine = {"Name": "slot5@s1", "SlotType": "Static", "Cpus": 3, "Memory": 10, "GlobalJobId": "here#7.2#1"}
    on_static = RUNS | {"RemoteHost": "slot5@s1", "ClusterId": 8}
    reader._client.answers = [answer(RUNS, on_static, whole=True, history=[], slots=(SHARED, foreign, mine))]
    held = {node.name: node.held for node in reader.look().nodes}
    assert held == {"n2": {"cpus": 3, "memory": 228 * MIB}, "slot5@s1": {"cpus": 3, "memory": 10 * MIB}}


def test_a_part_of_a_machine_that_a_dead_schedd_has_claimed_is_held(reader):
    orphan = {"Name": "slot1_9@n2", "DynamicSlot": True, "SlotType": "Dynamic", "Cpus": 1, "Memory": 128,
              "State": "Claimed", "Activity": "Idle"}  # fmt: skip
    free = {"Name": "slot5@s1", "SlotType": "Static", "Cpus": 3, "Memory": 10, "State": "Unclaimed", "Activity": "Idle"}
    reader._client.answers = [answer(RUNS, whole=True, history=[], slots=(SHARED, orphan, free))]
    held = {node.name: node.held for node in reader.look().nodes}
    assert held == {"n2": {"cpus": 3, "memory": 256 * MIB}, "slot5@s1": {}}


def test_the_end_of_a_job_is_recalled_by_number_and_submit(reader):
    reader._client.answers = [{"history": [DONE, DONE | {"QDate": T - 9}, DONE | {"ProcId": 3}]}]
    found = reader.recall([("7.2", T * SECOND)])
    assert [(job.identity, job.ended) for job in found] == [(("7.2", T * SECOND), "COMPLETED")]
    assert reader._client.requests[0]["recall"] == [[7, 2]]
    assert reader.recall([]) == ()


def test_the_platform_has_machines_and_licences(reader):
    big = SHARED | {"Name": "slot1@n10", "TotalSlotGPUs": 2}
    limits = {"LIC_LIMIT": "2"}
    reader._client.answers = [answer(big, whole=True, slots=(big, SHARED), limits=limits), answer(whole=True, slots=())]
    platform = parse_platform("text", reader.platform())
    assert (platform.nodes, platform.resources) == (("n2", "n10"), ("cpus", "memory", "gpus"))
    assert platform.capacity.tolist() == [[4, 4000 * MIB, 0], [4, 4000 * MIB, 2]]
    assert (platform.licences, platform.copies.tolist()) == (("lic",), [2])
    with pytest.raises(Down, match="no node with cpus"):
        reader.platform()


def test_licences_that_become_limited_are_asked_for(reader):
    wants = job(1, ConcurrencyLimits="lic")
    reader._client.answers = [
        answer(wants, whole=True, history=[], limits={}),
        answer(limits={"LIC_LIMIT": "3"}),
    ]
    first, second = reader.look(), reader.look()
    assert [(dict(look.licences), "lic" in look.jobs[0].asked.need) for look in (first, second)] == [
        ({}, False),
        ({"lic": 3}, True),
    ]


def test_bindings_that_are_missing_are_named_with_their_install_command(monkeypatch):
    monkeypatch.setattr(htcondor, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'backfill\[htcondor\]'"):
        HTCondorReader()


# ---------------------------------------------------------------------- the process that asks


def client(code):
    return Client([sys.executable, "-c", code])


def test_an_answer_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(htcondor, "GRACE_S", 0.0)
    silent = client("import time; time.sleep(600)")
    begin = time.monotonic()
    with pytest.raises(Down, match=r"did not answer within 0\.3 s"):
        silent.ask({"timeout": 0.3})
    assert time.monotonic() - begin < 30
    assert not silent.runs


def test_a_process_that_ends_says_why_and_the_next_question_starts_another():
    broken = client("import sys; sys.exit('no module')")
    for _ in range(2):
        with pytest.raises(Down, match="has ended: no module"):
            broken.ask({"timeout": 30})
    alarmed = client("import os, signal; os.kill(os.getpid(), signal.SIGALRM)")
    with pytest.raises(Down, match="did not answer within 9 s"):
        alarmed.ask({"timeout": 9})


def test_long_answers_and_errors_come_over():
    echo = client("import json, sys\nfor line in sys.stdin: print(json.dumps(json.loads(line)), flush=True)")
    try:
        text = "x" * 3_000_000
        assert echo.ask({"timeout": 30, "text": text})["text"] == text
        with pytest.raises(Down, match="HTCondor: no schedd"):
            echo.ask({"timeout": 30, "error": "no schedd"})
        assert echo.runs
    finally:
        echo.close()
