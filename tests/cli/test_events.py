"""Events on the command line: outages, windows, cancelled jobs, and what is said of them."""

import json

import pytest

import backfill as bf

ON4 = ("--cpus", "4")
ALONE = "job,submit,runtime,walltime,procs\na,0,100,100,4\nb,1,50,60,4\n"

# a and c hold all four cpus at 10 s, where one is left: c, which started last, is lost, and then a. All
# are back at 30 s.
SHRINK = "time,event,resource,value\n10,capacity,cpus,1\n30,capacity,cpus,4\n"


@pytest.fixture
def events(tmp_path):
    def write(text, name="events.csv"):
        (tmp_path / name).write_text(text)
        return ("--events", name)

    return write


def lawful(done):
    assert "lawful: " in done.err, done.err
    return done


def test_a_lost_job_waits_again_and_each_of_its_runs_is_written(backfill, events, tmp_path):
    asked = ("simulate", "tiny.csv", *ON4, *events(SHRINK), "--verify", "--runs", "runs.csv", "--schedule", "out.csv")
    done = lawful(backfill(*asked))
    assert "2 capacity changes; 2 runs lost (0.0106 cpu hours), 2 requeued\n" in done.out
    assert done.out.startswith("tiny: 4 jobs on 4 cpus, events\n")
    assert [line for line in (tmp_path / "runs.csv").read_text().splitlines() if line.startswith("a,")] == [
        "a,1,0,10,NODE_FAIL,head,pool",
        "a,2,30,130,COMPLETED,head,pool",
    ]
    assert "a,0,30,130,COMPLETED,head,pool" in (tmp_path / "out.csv").read_text()
    command = "backfill verify tiny.csv out.csv --cpus 4 --events events.csv --runs runs.csv"
    assert done.err.endswith(f"next: {command}\n")
    assert backfill(*command.split()[1:]).code == 0
    without = backfill("verify", "tiny.csv", "out.csv", *ON4, "--runs", "runs.csv")
    assert without.code == 5
    assert "runs again although it was" in without.out


def test_runs_are_printed_on_standard_output(backfill, events, tmp_path):
    asked = ("simulate", "tiny.csv", *ON4, *events(SHRINK))
    assert backfill(*asked, "--runs", "runs.csv", "--schedule", "out.csv").code == 0
    done = backfill(*asked, "--runs", "-", "--schedule", "out.csv")
    assert (done.code, done.out) == (0, (tmp_path / "runs.csv").read_text())
    assert done.err.endswith("next: backfill verify tiny.csv out.csv --cpus 4 --events events.csv\n")
    for words, told in (
        (("--runs", "-", "--schedule", "-"), "--schedule - and --runs - cannot both use standard output; give --runs"),
        (("--runs", "-", "--json"), "--runs - and --json cannot both use standard output; give --runs a file name"),
    ):
        done = backfill(*asked, *words)
        assert (done.code, done.out) == (2, "")
        assert done.complaint.startswith(told)


def test_a_lost_job_can_fail(backfill, events):
    done = lawful(backfill("simulate", "tiny.csv", *ON4, *events(SHRINK), "--lost", "fail", "--verify"))
    assert "2 runs lost (0.0106 cpu hours), 2 jobs failed\n" in done.out


def test_json_says_which_events_and_what_they_did(backfill, events):
    cancel = "time,event,job\n5,cancel,b\n5,cancel,b\n120,cancel,a\n9999,cancel,d\n"
    done = backfill("simulate", "tiny.csv", *ON4, *events(cancel, "left.csv"), "--json")
    found = json.loads(done.out)
    assert found["options"]["lost"] == "requeue"
    named = found["options"]["events"]
    assert (named["name"], named["count"], len(named["sha256"])) == ("left", 4, 64)
    cost = ("lost_cpu_hours", "requeues", "cancelled_jobs", "failed_jobs", "pending_jobs")
    assert [found["metrics"][name] for name in cost] == [0, 0, 1, 0, 0]
    assert found["notes"] == [
        "2 events had no effect: their jobs had already ended",
        "1 event had no effect: all jobs had already ended",
    ]
    plain = json.loads(backfill("simulate", "tiny.csv", *ON4, "--json").out)
    assert not {"events", "lost"} & {*plain["options"]}
    assert not {*cost} & {*plain["metrics"]}


def test_jobs_whose_capacity_never_comes_back_stay_pending(backfill, events, tmp_path):
    gone = events("time,event,resource,value\n60,capacity,cpus,3\n")
    done = lawful(backfill("simulate", "tiny.csv", *ON4, *gone, "--verify", "--schedule", "out.csv"))
    assert "1 job never starts: events take away capacity that it needs" in done.err
    assert "1 job never started\n" in done.out
    assert "\nb,1,,,PENDING,,\n" in (tmp_path / "out.csv").read_text()
    waits = (tmp_path / "out.csv").read_text().replace("d,3,100,199,TIMEOUT,head,pool", "d,3,,,PENDING,,")
    (tmp_path / "theirs.csv").write_text(waits)
    assert backfill("verify", "tiny.csv", "theirs.csv", *ON4, *gone).code == 0  # behind b, as fcfs would have it
    back = events("time,event,resource,value\n60,capacity,cpus,3\n90,capacity,cpus,4\n", "back.csv")
    again = backfill("verify", "tiny.csv", "theirs.csv", *ON4, *back)
    assert again.code == 5
    assert "pending: job b: is PENDING, although there is room for it" in again.out


def test_events_of_jobs_that_are_left_out_are_counted_and_others_refused(backfill, events):
    some = events("time,event,job\n5,cancel,d\n5,cancel,b\n")
    done = backfill("simulate", "tiny.csv", *ON4, *some, "--jobs", "2")
    assert "ignored 1 event of jobs that are not part of this run" in done.err
    assert "1 cancelled job; no run lost" in done.out
    unknown = backfill("simulate", "tiny.csv", *ON4, *events("time,event,job\n5,cancel,e\n"), "--jobs", "2")
    assert unknown.code == 3
    assert unknown.complaint.startswith("events.csv:2: job 'e' is unknown")


def test_load_does_not_move_events(backfill, events):
    done = backfill("simulate", "tiny.csv", *ON4, *events(SHRINK), "--load", "2")
    assert "--load 2 changes when jobs are submitted, but not the times of the events" in done.err


def test_a_window_that_a_job_would_run_into_is_waited_for(backfill, events, tmp_path):
    (tmp_path / "alone.csv").write_text(ALONE)
    window = events("time,event,resource,amount,value,until\n0,window,cpus,4,120,200\n")
    lawful(backfill("simulate", "alone.csv", *ON4, *window, "--verify", "--schedule", "out.csv"))
    assert (tmp_path / "out.csv").read_text().splitlines()[2] == "b,1,200,250,COMPLETED,head,pool"
    files = ("--schedule", "out.csv", "--runs", "runs.csv")
    short = backfill("simulate", "alone.csv", *ON4, *window, "--estimates", "inflate:0.1", *files)
    command = "verify alone.csv out.csv --cpus 4 --events events.csv --estimates inflate:0.1 --runs runs.csv"
    assert short.err.endswith(f"{command}\n")
    assert backfill(*command.split()).code == 0
    told = backfill(*command.replace("--estimates inflate:0.1 ", "").split())  # b ran into the window, and was lost
    assert told.code == 5
    assert told.out.startswith("window: job b at day 0 00:01:40: ")


def test_compare_tells_what_events_did_under_each_policy(backfill, events):
    done = backfill("compare", "tiny.csv", *ON4, *events(SHRINK), "--policy", "fcfs", "--policy", "easy", "--verify")
    assert (
        "\nfcfs: 2 capacity changes; 1 run lost (0.00833 cpu hours), 1 requeued\n"
        "easy: 2 capacity changes; 2 runs lost (0.0106 cpu hours), 2 requeued\n"
    ) in lawful(done).out
    assert "lower bounds" in done.out
    raised = events("time,event,resource,value\n10,capacity,cpus,9\n")
    more = backfill("compare", "tiny.csv", *ON4, *raised, "--policy", "fcfs", "--policy", "easy")
    assert "no lower bounds: events raise a capacity or change walltimes" in more.err
    assert "lower bounds" not in more.out


def test_a_saved_result_gives_the_same_page_with_its_outages(backfill, events, tmp_path):
    backfill("simulate", "tiny.csv", *ON4, *events(SHRINK), "--save", "kept", "--report", "fresh.html", "-q")
    assert backfill("report", "kept", "--out", "again.html", "-q").code == 0
    fresh = (tmp_path / "fresh.html").read_text()
    assert fresh == (tmp_path / "again.html").read_text()
    assert bf.read_events("events.csv").sha256 in fresh
    assert bf.read_events(tmp_path / "kept" / "events.csv.gz").cells == bf.read_events("events.csv").cells


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("time,event,job\n5,kill,a\n", "bad.csv:2: event is 'kill'; expected cancel, "),
        ("time,event,job\nx,cancel,a\n", "bad.csv:2: time is 'x'; expected a number of seconds"),
        ("time,event,node\n5,down,m1\n", "bad.csv:2: node 'm1' is unknown; expected pool"),
        ("time,event,resource,value\n5,capacity,gpus,1\n", "bad.csv:2: resource 'gpus' is unknown"),
        ("time,event,job,nodes\n5,cancel,a,\n", "bad.csv:1: column 'nodes' is unknown"),
    ],
)
def test_bad_events_are_refused_with_file_line_and_field(backfill, events, text, complaint):
    done = backfill("simulate", "tiny.csv", *ON4, *events(text, "bad.csv"))
    assert (done.code, done.complaint[: len(complaint)]) == (3, complaint)


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (("--events", "-"), "--events is '-'; expected a file"),
        (("--lost", "maybe"), "--lost is 'maybe'; expected requeue or fail"),
        (("--cancelled", "maybe"), "--cancelled is 'maybe'; expected run or leave"),
        (("--cancelled", "leave", "--zero-run", "drop"), "cancelled leave is about jobs that zero_run drop drops"),
        (("--events", "tiny.csv", "--report", "tiny.csv"), "--report tiny.csv is also the events"),
    ],
)
def test_mistakes_of_usage(backfill, more, complaint):
    done = backfill("simulate", "tiny.csv", *ON4, *more)
    assert (done.code, done.complaint[: len(complaint)]) == (2, complaint)


def test_events_do_not_go_with_one_pass_for_each_of_them(backfill, events):
    assert backfill("simulate", "tiny.csv", *ON4, *events(SHRINK), "--ties", "step").code == 2


# Of four processors a takes all; b never ran and left after 20 s, c after 500 s, of d nothing is known.
LEFT = """job,submit,runtime,walltime,procs,status,waited
a,0,100,100,4,completed,0
b,1,0,60,4,cancelled,20
c,2,0,60,4,cancelled,500
d,3,0,60,4,cancelled,
"""


def test_cancelled_jobs_leave_after_their_recorded_wait(backfill, events, tmp_path):
    (tmp_path / "left.csv").write_text(LEFT)
    kept = backfill("simulate", "left.csv", *ON4)
    some = "3 of 4 jobs"
    assert (
        f"cancelled before they ran, kept as jobs of 0 s: {some}; with --cancelled leave they leave the queue"
        in kept.err
    )
    done = lawful(backfill("simulate", "left.csv", *ON4, "--cancelled", "leave", "--verify", "--schedule", "out.csv"))
    told = f"cancelled before they ran, leave after their recorded wait: {some}, but 1 without a recorded wait, kept"
    assert told in done.err
    assert "changed nothing" not in done.err
    assert "1 cancelled job; no run lost" in done.out
    states = [line.split(",")[4] for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert states == ["COMPLETED", "CANCELLED", "COMPLETED", "COMPLETED"]
    assert done.err.endswith("backfill verify left.csv out.csv --cpus 4 --cancelled leave\n")
    assert backfill("verify", "left.csv", "out.csv", *ON4, "--cancelled", "leave").code == 0
    both = backfill("simulate", "left.csv", *ON4, "--cancelled", "leave", *events("time,event,job\n50,cancel,d\n"))
    assert "2 cancelled jobs; no run lost" in both.out
    found = json.loads(backfill("simulate", "left.csv", *ON4, "--cancelled", "leave", "--json").out)
    assert found["options"]["cancelled"] == "leave"


def test_python_takes_events_as_a_file_or_a_table(backfill, events):
    log, pool, table = bf.read("tiny.csv"), bf.Platform.pool(4), [{"time": 5, "event": "cancel", "job": "b"}]
    events("time,event,job\n5,cancel,b\n")
    found = [bf.simulate(log, pool, events=each).schedule for each in (table, bf.Events.of(table), "events.csv")]
    assert all(each.columns() == found[0].columns() for each in found)
    compared = bf.compare(log, pool, ["fcfs", "easy"], events=table)
    assert [bf.verify(result) for result in compared.results] == [[], []]
    assert compared.happened == ["fcfs: 1 cancelled job; no run lost", "easy: 1 cancelled job; no run lost"]


def test_python_has_the_runs_as_a_table(backfill, events):
    polars = pytest.importorskip("polars")
    events(SHRINK)
    result = bf.simulate(bf.read("tiny.csv"), bf.Platform.pool(4), events="events.csv")
    of_a = result.to_polars(runs=True).filter(polars.col("job") == "a")
    assert of_a.columns == ["job", "run", "start", "end", "progress", "state", "reason", "node"]
    assert of_a.select("run", "start", "end", "progress").rows() == [(1, 0.0, 10.0, 0.0), (2, 30.0, 130.0, 100.0)]
    assert len(result.runs) == len(result.to_polars()) + 2


# Job 2 was sent 30 s after the end of job 1, which waits for job 3 here: there is one processor.
THINKS = """; MaxProcs: 1
3 0 0 100 1 -1 -1 1 100 -1 1 1 1 -1 -1 -1 -1 -1
1 5 0 50 1 -1 -1 1 50 -1 1 1 1 -1 -1 -1 -1 -1
2 90 5 10 1 -1 -1 1 10 -1 1 1 1 -1 -1 -1 1 30
"""


def test_jobs_think_where_that_is_wanted(backfill, tmp_path):
    (tmp_path / "thinks.swf").write_text(THINKS)
    recorded = backfill("simulate", "thinks.swf", "-q", "--schedule", "-").out.splitlines()
    assert recorded[3] == "2,90,150,160,COMPLETED,head,pool"
    files = ("--schedule", "out.csv", "--save", "kept", "--report", "fresh.html")
    done = lawful(backfill("simulate", "thinks.swf", "--think", "--verify", *files))
    assert (tmp_path / "out.csv").read_text().splitlines()[3] == "2,85,180,190,COMPLETED,head,pool"
    assert done.err.endswith("next: backfill verify thinks.swf out.csv --think\n")
    backfill("report", "kept", "--out", "again.html", "-q")
    assert (tmp_path / "again.html").read_text() == (tmp_path / "fresh.html").read_text()
    (tmp_path / "early.csv").write_text((tmp_path / "out.csv").read_text().replace("85,180,190", "85,179,189"))
    early = backfill("verify", "thinks.swf", "early.csv", "--think")
    assert early.code == 5
    assert (
        early.out == "start: job 2 at day 0 00:02:59: starts before 30 s after the end of job 1, which it depends on\n"
    )
    assert backfill("simulate", "thinks.swf", "--think", "--json", "-q").out.count('"think": true') == 1


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "k-reservations", "flexible", "preemptive"])
def test_a_job_may_be_cancelled_as_what_it_waited_for_ends(backfill, events, tmp_path, policy):
    (tmp_path / "chain.csv").write_text(
        "job,submit,runtime,walltime,procs,after\na,0,5,5,1,\nb,0,100,100,1,a\nc,0,50,50,1,\n"
    )
    cancel = events("time,event,job\n5,cancel,b\n")
    done = lawful(backfill("simulate", "chain.csv", "--cpus", "2", *cancel, "--policy", policy, "--verify"))
    assert "1 cancelled job" in done.out


def test_verify_knows_how_much_longer_a_preemption_made_a_job(backfill, tmp_path):
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,procs\na,0,100,6\nb,10,100,8\nc,20,500,2\n")
    how = "preemptive:how=checkpoint,overhead=30"
    made = ("--cpus", "8", "--policy", how, "--schedule", "s.csv", "--runs", "r.csv", "--verify")
    lawful(backfill("simulate", "jobs.csv", *made))
    assert "c,2,200,650,COMPLETED,resumed,pool,420" in (tmp_path / "r.csv").read_text()
    checked = ("verify", "jobs.csv", "s.csv", "--cpus", "8", "--runs", "r.csv", "-q")
    assert backfill(*checked, "--overhead", "30").code == 0
    assert "ends 450 s after its start; expected 420 s" in backfill(*checked).out
    refused = backfill(*checked, "--overhead", "-1")
    assert (refused.code, refused.complaint) == (2, "--overhead is -1; expected seconds from 0 to 1e9")
    refused = backfill(*checked, "--place", "best")
    assert (refused.code, refused.complaint) == (
        2,
        "--place is 'best'; expected power or pack or spread or contiguous or exclusive",
    )


@pytest.mark.parametrize(
    "shut", ["0,window,n,60,90\n20,down,n,,\n", "0,window,n,60,90\n0,window,n,70,110\n80,down,n,,\n"]
)
@pytest.mark.parametrize("policy", ["easy", "conservative", "first-fit"])
def test_a_job_that_asks_for_nothing_is_lost_with_a_node_that_several_events_close(
    backfill, events, tmp_path, policy, shut
):
    (tmp_path / "nothing.csv").write_text("job,submit,runtime,cpus\na,0,100,0\n")
    (tmp_path / "n.toml").write_text('[[node]]\nname = "n"\ncpus = 4\n')
    happens = events(f"time,event,node,value,until\n{shut}")
    lawful(backfill("simulate", "nothing.csv", "--platform", "n.toml", *happens, "--policy", policy, "--verify"))


def test_a_reservation_is_kept_explained_and_checked_with_the_files_alone(backfill, events, tmp_path):
    head = "job,submit,runtime,walltime,procs,user,group,reservation\n"
    jobs = ["a,0,10,20,1,bob,,", "b,1,300,400,2,ann,lab,course", "c,2,300,900,2,bob,,", "d,4,10,10,1,bob,,course"]
    (tmp_path / "jobs.csv").write_text(head + "\n".join(jobs) + "\n")
    made = events("time,event,reservation,group,node,value,until\n0,reserve,course,lab,n[12],360,1080\n")
    asked = ("jobs.csv", "--cpus", "4", "--nodes", "4", *made)
    done = lawful(backfill("simulate", *asked, "--verify", "--schedule", "out.csv", "--runs", "runs.csv"))
    assert done.out.endswith("\n1 reservation; no run lost\n")
    text = (tmp_path / "out.csv").read_text()
    assert "b,1,360,660,COMPLETED,head,n1*1;n2*1\n" in text
    assert "c,2,2,302,COMPLETED,backfill,n3*1;n4*1\n" in text
    assert "d,4,,,REJECTED,reservation,\n" in text
    assert backfill("verify", asked[0], "out.csv", *asked[1:], "--runs", "runs.csv").code == 0
    for name in ("out.csv", "runs.csv"):
        (tmp_path / name).write_text((tmp_path / name).read_text().replace("n1*1;n2*1", "n2*1;n4*1"))
    damaged = backfill("verify", asked[0], "out.csv", *asked[1:], "--runs", "runs.csv")
    assert damaged.code == 5
    assert "reservation: job b at 00:06:00: does not sit on nodes of course" in damaged.out.replace("day 0 ", "")
    assert "@" not in damaged.out
    told = backfill("simulate", *asked, "-q", "--explain", "b").out
    assert "may run on n1 and n2 only (reservation course)" in " ".join(told.split())
    assert "for reservation course to begin" in " ".join(told.split())
    refused = " ".join(backfill("simulate", *asked, "-q", "--explain", "d").out.split())
    assert "asks for reservation course, which at its submit was not there or not its own" in refused
    assert "no node" not in refused
    cause = json.loads(backfill("simulate", *asked, "--explain", "b", "--json").out)["explanation"]
    assert cause["asks"]["reservation"] == "course"
    assert cause["asks"]["node_names"] == ["n1", "n2"]
    compared = backfill("compare", *asked, "--policy", "easy", "--policy", "fcfs")
    assert "fcfs: 1 reservation; no run lost" in compared.out


def test_a_policy_whose_jobs_take_turns_refuses_a_reservation_of_some_cpus_by_its_name(backfill, events, tmp_path):
    (tmp_path / "jobs.csv").write_text("job,submit,runtime,procs\na,0,10,1\n")
    made = events("time,event,reservation,user,resource,amount,value,until\n0,reserve,course,ana,cpus,1,10,20\n")
    done = backfill("simulate", "jobs.csv", "--cpus", "4", "--nodes", "2", *made, "--policy", "gang-matrix:mpl=2")
    assert done.code == 2
    assert "reservation course has some of the cpus of a node; expected reservations of whole nodes" in done.err
    assert "window" not in done.err


def test_a_schedule_is_checked_against_a_file_without_events(backfill, events, tmp_path):
    (tmp_path / "out.csv").write_text("job,submit,start,end,state,reason,node\na,0,,,PENDING,,\n")
    (tmp_path / "one.csv").write_text("job,submit,runtime,walltime,procs\na,0,100,100,4\n")
    done = backfill("verify", "one.csv", "out.csv", *ON4, *events("time,event\n"))
    assert (done.code, done.out) == (5, "pending: job a: is PENDING, although there is room for it\n")
