"""Partitions, qualities of service, limits and rules of placement, as an administrator writes and meets them."""

import json

import pytest

MACHINE = """[[node]]
name = "n"
count = 4
cpus = 4

[[partition]]
name = "short"
nodes = ["n[12]"]
default = true
default_walltime = "10"
max_walltime = "100"

[[partition]]
name = "whole"
nodes = ["n[34]"]
place = "exclusive"
users = ["ann"]
groups = ["physics"]
max_size = {cpus = 6}

[[qos]]
name = "urgent"
priority = 5
max_walltime = "50"

[[limit]]
name = "each"
per = "user"
running_jobs = 1

[[limit]]
name = "bobs"
users = ["bob"]
queued_jobs = 2
running = {cpus = 4}
"""
HEADER = "job,submit,runtime,walltime,procs,user,group,partition,qos,queue"


@pytest.fixture
def simulate(backfill, tmp_path):
    """Runs jobs by a policy on the machine, and gives by job: start, end, and node or reason."""
    (tmp_path / "m.toml").write_text(MACHINE)

    def run(*jobs: str, policy: str = "easy") -> dict[str, tuple[str, str, str]]:
        (tmp_path / "jobs.csv").write_text("\n".join([HEADER, *jobs]) + "\n")
        args = ("jobs.csv", "--platform", "m.toml", "--policy", policy, "--schedule", "s.csv", "--verify", "-q")
        done = backfill("simulate", *args)
        assert done.code == 0, done.err
        rows = [line.split(",") for line in (tmp_path / "s.csv").read_text().splitlines()[1:]]
        return {row[0]: (row[2], row[3], row[6] or row[5]) for row in rows}

    return run


def test_what_a_job_breaks_for_ever_rejects_it_by_name(simulate):
    found = simulate(
        "long,0,9,101,1,ann,,,,",
        "nowhere,0,9,9,1,ann,,midnight,,",
        "strange,0,9,9,1,ann,,,gold,",
        "urgent,0,9,60,1,ann,,,urgent,",
        "guest,0,9,9,1,cid,,whole,,",
        "large,0,9,9,7,cid,physics,whole,,",
        "wide,0,9,9,5,bob,,,,",
        "fits,0,9,9,1,cid,physics,,,whole",
    )
    assert [why for _, _, why in found.values()] == [
        "max_walltime of short",
        "partition",
        "qos",
        "max_walltime of urgent",
        "users of whole",
        "max_size.cpus of whole",
        "bobs: running cpus",
        "n3",
    ]


def test_a_job_that_a_limit_holds_back_is_passed_over_and_one_too_many_is_rejected(simulate):
    jobs = [f"b{i},0,10,10,4,bob,,,," for i in range(3)]
    found = simulate(*jobs, "c,1,10,10,4,cid,,,,", policy="fcfs")
    assert found == {
        "b0": ("0", "10", "n1"),
        "b1": ("10", "20", "n1"),
        "b2": ("", "", "bobs: queued_jobs"),
        "c": ("1", "11", "n2"),
    }


def test_a_plan_promises_a_start_for_when_the_limit_allows_it(backfill, simulate, tmp_path):
    simulate("b0,0,10,10,4,bob,,,,", "b1,0,10,10,4,bob,,,,", policy="conservative")
    args = ("jobs.csv", "--platform", "m.toml", "--policy", "conservative", "--promise", "b1", "--json", "-q")
    told = json.loads(backfill("simulate", *args).out)
    assert told["promise"]["history"] == [{"at_s": 0.0, "start_s": 10.0, "cause": "given"}]


def test_a_job_on_whole_nodes_shares_them_with_nobody(simulate):
    found = simulate("a,0,10,10,5,ann,,whole,,", "p,0,10,10,1,cid,physics,whole,,", "q,0,10,10,1,cid,,,,")
    assert found == {"a": ("0", "10", "n3*4;n4*1"), "p": ("10", "20", "n3"), "q": ("0", "10", "n1")}


def test_a_job_that_asks_for_no_walltime_has_the_default_of_its_partition(backfill, simulate):
    found = simulate("a,0,4,,8,ann,,,,", "b,1,9,9,8,bob,physics,whole,,", "c,1,8,8,8,cid,,,,", policy="conservative")
    assert (found["a"], found["c"]) == (("0", "4", "n1*4;n2*4"), ("4", "12", "n1*4;n2*4"))
    told = json.loads(backfill("simulate", "jobs.csv", "--platform", "m.toml", "--json", "-q").out)
    assert "walltime missing: the default of the partition or QOS is used: 1 job" in told["workload"]["notes"]


def test_a_queue_names_the_partition_of_a_job_that_names_none(simulate):
    assert simulate("a,0,10,10,1,ann,,,,whole", "b,0,10,10,1,bob,,,,other") == {
        "a": ("0", "10", "n3"),
        "b": ("0", "10", "n1"),
    }


@pytest.mark.parametrize(
    ("rule", "node"), [("power", "n1"), ("pack", "n2"), ("spread", "n3"), ("contiguous", "n1"), ("exclusive", "n3")]
)
def test_a_rule_of_placement_says_where_a_job_sits(backfill, tmp_path, rule, node):
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,cpus\na,0,99,2\nb,0,99,3\nc,1,99,1\n")
    (tmp_path / "m.toml").write_text('[[node]]\nname = "n"\ncount = 3\ncpus = 4\n')
    args = ("simulate", "jobs.csv", "--platform", "m.toml", "--place", rule, "--schedule", "-", "-q")
    assert backfill(*args).out.splitlines()[3].split(",")[6] == node


def test_an_unknown_rule_of_placement_is_a_usage_error(backfill, tmp_path):
    (tmp_path / "jobs.csv").write_text("job,submit,runtime\na,0,9\n")
    done = backfill("simulate", "jobs.csv", "--cpus", "4", "--place", "best")
    assert (done.code, done.complaint) == (
        2,
        "policy easy: place is 'best'; expected power or pack or spread or contiguous or exclusive",
    )


def test_whole_nodes_of_two_kinds_in_one_partition_are_refused(backfill, tmp_path):
    (tmp_path / "jobs.csv").write_text("job,submit,runtime\na,0,9\n")
    (tmp_path / "m.toml").write_text("[[node]]\ncpus = 4\n[[node]]\ncpus = 8\n")
    done = backfill("simulate", "jobs.csv", "--platform", "m.toml", "--place", "exclusive")
    assert (done.code, done.complaint) == (
        3,
        "m: nodes node1 and node2, on which job a may run, are not alike; expected equal nodes to place a job on whole "
        "nodes, by a partition or a constraint for each kind",
    )


def test_a_job_that_asks_for_it_has_its_nodes_for_itself_among_those_of_one_kind(backfill, tmp_path):
    rows = ["b,0,9,1,,,", "c,0,9,1,big,TRUE,", "d,0,9,6,,yes,", "e,0,9,2,small,yes,2", "f,0,9,1,,no,"]
    header = "job,submit,runtime,cpus,constraint,exclusive,tasks"
    (tmp_path / "jobs.csv").write_text("\n".join([header, *rows]) + "\n")
    kinds = [f'[[node]]\nname = "{name}"\ncount = 2\ncpus = {cpus}\nfeatures = ["{kind}"]\n'
             for name, cpus, kind in (("m", 8, "big"), ("n", 2, "small"))]  # fmt: skip
    (tmp_path / "m.toml").write_text("".join(kinds))
    args = ("--platform", "m.toml", "--policy", "easy", "--schedule", "s.csv", "--verify", "-q")
    done = backfill("simulate", "jobs.csv", *args)
    assert done.code == 0, done.err
    rows_of = [line.split(",") for line in (tmp_path / "s.csv").read_text().splitlines()[1:]]
    assert [(row[0], row[2], row[6]) for row in rows_of] == [
        ("b", "0", "m1"), ("c", "0", "m2"), ("d", "9", "m1"), ("e", "0", "n1*1;n2*1"), ("f", "0", "m1"),
    ]  # fmt: skip
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,exclusive\na,0,9,yes\n")
    done = backfill("simulate", "jobs.csv", *args)
    assert "m: nodes n1 and m1, on which job a may run, are not alike" in done.complaint
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,exclusive\na,0,9,perhaps\n")
    assert "exclusive is 'perhaps'; expected yes or no" in backfill("simulate", "jobs.csv", *args).complaint


WHOLE = """[[node]]
name = "n"
count = 2
cpus = 4
"""


@pytest.fixture
def on_whole_nodes(backfill, tmp_path):
    """Simulates jobs of 2 and of 1 cpus under a rule of placement with these events, and verifies what it wrote."""
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,cpus\na,0,99,2\nb,0,99,1\nc,1,99,1\n")
    (tmp_path / "m.toml").write_text(WHOLE)
    jobs = ("jobs.csv", "--platform", "m.toml", "-q")

    def run(made: str, checked: str, *events: str):
        (tmp_path / "e.csv").write_text("\n".join(["time,event,node,resource,value,until,amount", *events]) + "\n")
        more = ("--events", "e.csv", "--runs", "r.csv")
        done = backfill("simulate", *jobs, *more, "--place", made, "--schedule", "s.csv", "--verify")
        return done, backfill("verify", jobs[0], "s.csv", *jobs[1:], *more, "--place", checked)

    return run


def test_jobs_that_must_be_alone_on_their_nodes_and_are_not_are_found(on_whole_nodes):
    done, verified = on_whole_nodes("power", "exclusive")
    assert (done.code, verified.code) == (0, 5)
    assert "whole: job b at day 0 00:00:00: shares node n1, on which a job must be alone" in verified.out
    assert on_whole_nodes("power", "pack")[1].code == on_whole_nodes("exclusive", "exclusive")[1].code == 0


@pytest.mark.parametrize(
    "events",
    [
        ("50,capacity,n1,cpus,3,,", "60,capacity,n1,cpus,4,,"),
        ("50,window,n1,cpus,50,70,1",),
        ("0,window,n2,cpus,60,70,1",),
        ("50,capacity,n*,cpus,3,,",),
    ],
)
def test_a_job_on_whole_nodes_loses_them_with_any_part(on_whole_nodes, tmp_path, events):
    done, verified = on_whole_nodes("exclusive", "exclusive", *events)
    assert (done.code, verified.code, verified.out) == (0, 0, "lawful: 3 jobs checked\n"), (done.err, verified.out)
    lost = "NODE_FAIL" in (tmp_path / "r.csv").read_text()
    assert lost == (events[0][:2] == "50")


def test_events_that_enlarge_a_node_on_which_jobs_are_alone_are_refused(on_whole_nodes, backfill):
    done, _ = on_whole_nodes("exclusive", "exclusive", "50,capacity,n2,cpus,8,,")
    assert (done.code, done.complaint) == (
        2,
        "events raise cpus of node n2 from 4 to 8, and jobs are placed on it whole; state the most that it ever has "
        "in the platform, and lower it by an event",
    )
    assert on_whole_nodes("power", "power", "50,capacity,n2,cpus,8,,")[1].code == 0


def test_a_job_that_lost_its_run_is_queued_until_it_runs_again(backfill, tmp_path):
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,cpus,user\na,0,99,4,ann\nb,70,9,1,ann\nc,300,9,1,ann\n")
    limit = '[[limit]]\nname = "each"\nper = "user"\nqueued_jobs = 1\n'
    (tmp_path / "m.toml").write_text('[[node]]\nname = "n"\ncpus = 4\n' + limit)
    (tmp_path / "e.csv").write_text("time,event,node\n50,down,n\n90,up,n\n")
    args = ("--platform", "m.toml", "--events", "e.csv", "--runs", "r.csv", "-q")
    done = backfill("simulate", "jobs.csv", *args, "--schedule", "s.csv", "--verify")
    assert done.code == 0, done.err
    assert "b,70,,,REJECTED,each: queued_jobs of ann," in (tmp_path / "s.csv").read_text()
    assert backfill("verify", "jobs.csv", "s.csv", *args).code == 0
    (tmp_path / "e.csv").write_text("time,event,node\n50,down,n\n")  # a waits for ever
    assert backfill("simulate", "jobs.csv", *args, "--schedule", "s.csv", "--verify").code == 0
    done = backfill("simulate", "jobs.csv", *args, "--lost", "fail", "--schedule", "s.csv", "--verify")
    assert done.code == 0, done.err
    assert "b,70,,,PENDING,," in (tmp_path / "s.csv").read_text()


def test_a_limit_on_what_there_is_not_says_which_table_is_missing(backfill, tmp_path):
    (tmp_path / "jobs.csv").write_text("job,submit,runtime\na,0,9\n")
    limit = '[[limit]]\nname = "l"\npartitions = ["x"]\nrunning_jobs = 1\n'
    (tmp_path / "m.toml").write_text(WHOLE + limit)
    done = backfill("simulate", "jobs.csv", "--platform", "m.toml")
    assert (done.code, done.complaint) == (
        3,
        "m.toml: limit l: partitions has 'x'; expected a [[partition]] table of that name",
    )
