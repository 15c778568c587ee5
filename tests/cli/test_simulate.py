"""backfill simulate: what it prints, where, and what it refuses."""

import gzip
import io
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from .conftest import FILES, TINY

ON4 = ("--cpus", "4")


def test_a_platform_beside_the_log_is_used_and_named(backfill, tmp_path):
    Path("tiny.toml").write_text('[[node]]\nname = "n"\ncount = 2\ncpus = 2\n')
    done = backfill("simulate", "tiny.csv")
    assert "tiny.csv: the platform is tiny.toml, which lies beside it\n" in done.err
    assert done.out.startswith("tiny: 4 jobs on 4 cpus\n")
    assert "lies beside it" not in backfill("simulate", "tiny.csv", *ON4).err


def test_the_result_goes_to_standard_output_and_all_else_to_standard_error(backfill):
    done = backfill("simulate", "tiny.csv", *ON4)
    assert done.code == 0
    assert done.out.startswith("tiny: 4 jobs on 4 cpus\n\n")
    assert re.search(r"^easy +\d", done.out, re.MULTILINE)
    assert [line for line in done.err.splitlines() if not line.startswith("compiling ")] == [
        "tiny: run time longer than the walltime: 1 of 4 jobs",
        "next: backfill simulate tiny.csv --cpus 4 --report out.html",
    ]


def test_quiet_says_nothing(backfill):
    assert backfill("simulate", "tiny.csv", *ON4, "--quiet").err == ""


def test_the_schedule_can_go_to_standard_output_alone(backfill):
    assert backfill("simulate", "tiny.csv", *ON4, "-q", "--schedule", "-").out == (
        "job,submit,start,end,state,reason,node\n"
        "a,0,0,100,COMPLETED,head,pool\n"
        "b,1,100,150,COMPLETED,head,pool\n"
        "c,2,2,100,COMPLETED,backfill,pool\n"
        "d,3,150,249,TIMEOUT,head,pool\n"
    )


def test_the_same_schedule_goes_to_a_file(backfill, tmp_path):
    printed = backfill("simulate", "tiny.csv", *ON4, "--schedule", "-").out
    done = backfill("simulate", "tiny.csv", *ON4, "--schedule", "out.csv")
    assert (tmp_path / "out.csv").read_text() == printed
    assert done.err.endswith("next: backfill verify tiny.csv out.csv --cpus 4\n")


@pytest.mark.parametrize("policy", ["round-robin", "preemptive:how=suspend", "gang-matrix-backfill"])
def test_a_schedule_that_runs_alone_make_is_verified_with_them(backfill, policy):
    words = ["simulate", "tiny.csv", *ON4, "--policy", policy, "--schedule", "out.csv"]
    assert backfill(*words).err.endswith(f"next: backfill {' '.join(words)} --runs runs.csv\n")
    following = backfill(*words, "--runs", "runs.csv").err.splitlines()[-1]
    assert following.startswith("next: backfill verify tiny.csv out.csv --cpus 4 --runs runs.csv")
    assert "lawful" in backfill(*following.split()[2:]).out


def test_the_turns_of_runs_are_not_verified_without_a_file_of_them(backfill):
    backfill("simulate", "tiny.csv", *ON4, "--schedule", "out.csv", "-q")
    done = backfill("verify", "tiny.csv", "out.csv", *ON4, "--mpl", "5")
    assert (done.code, done.complaint) == (
        2, "--mpl needs the turns of each run; expected --runs FILE, which simulate --runs writes")  # fmt: skip


def test_json_has_the_documented_keys(backfill):
    found = json.loads(
        backfill("simulate", "tiny.csv", *ON4, "--policy", "k-reservations", "--set", "k=2", "--json").out
    )
    assert list(found)[:7] == ["schema", "backfill", "policy", "params", "workload", "platform", "seed"]
    assert (found["schema"], found["policy"], found["params"], found["seed"]) == (1, "k-reservations", {"k": 2.0}, 0)
    assert found["workload"]["jobs"] == 4
    assert len(found["workload"]["sha256"]) == 64
    assert (found["platform"]["cpus"], found["platform"]["nodes"]) == (4, 1)
    assert found["metrics"]["mean_wait_s"] == pytest.approx((0 + 99 + 0 + 147) / 4)
    assert (found["metrics"]["backfilled_jobs"], found["metrics"]["killed_jobs"]) == (1, 1)
    assert found["options"] == {
        "ties": "batch",
        "overrun": "kill",
        "estimates": "requested",
        "jobs": None,
        "load": 1,
        "zero_run": "keep",
        "warmup": "0",
        "cooldown": "0",
    }
    assert found["elapsed_s"] >= 0


def test_the_same_seed_gives_the_same_bytes(backfill):
    arguments = ("simulate", "model:lublin?jobs=300&seed=4", "--estimates", "uniform:3", "--seed", "7", "--json")
    first, second = (re.sub(r'"(elapsed_s|jobs_per_s)": .*', "", backfill(*arguments).out) for _ in range(2))
    assert first == second
    assert first != re.sub(r'"(elapsed_s|jobs_per_s)": .*', "", backfill(*arguments[:-2], "8", "--json").out)


def test_an_unusual_variant_is_named(backfill):
    assert backfill("simulate", "tiny.csv", *ON4, "--ties", "step").out.startswith(
        "tiny: 4 jobs on 4 cpus, ties step\n"
    )
    done = backfill("simulate", "tiny.csv", *ON4, "--overrun", "extend", "--estimates", "inflate:2")
    assert done.out.startswith("tiny: 4 jobs on 4 cpus, overrun extend, estimates inflate:2\n")


def test_the_size_of_the_machine_comes_from_the_log(backfill):
    done = backfill("simulate", "model:lublin?jobs=50&cpus=64")
    assert "lublin: 64 cpus, as the log says\n" in done.err
    assert done.out.startswith("lublin: 50 jobs on 64 cpus\n")


def test_a_log_can_come_from_standard_input(backfill, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(TINY.encode())))
    assert backfill("simulate", "-", *ON4).out.startswith("stdin: 4 jobs on 4 cpus\n")


def test_fewer_jobs_at_another_load(backfill):
    found = json.loads(backfill("simulate", "tiny.csv", *ON4, "--jobs", "2", "--load", "0.5", "--json").out)
    assert found["metrics"]["jobs"] == 2
    assert found["metrics"]["max_wait_s"] == 98
    assert "inter-arrival times divided by 0.5" in found["workload"]["notes"]
    assert (found["options"]["jobs"], found["options"]["load"]) == (2, 0.5)


def test_warmup_and_cooldown_leave_jobs_out_of_the_metrics_only(backfill):
    found = json.loads(backfill("simulate", "tiny.csv", *ON4, "--warmup", "1", "--cooldown", "1", "--json").out)
    assert (found["metrics"]["jobs"], found["workload"]["jobs"]) == (2, 4)


def test_zero_runs_can_be_dropped(backfill, tmp_path):
    (tmp_path / "zero.csv").write_text("job,submit,runtime,procs\na,0,0,1\nb,0,5,1\n")
    done = backfill("simulate", "zero.csv", *ON4, "--zero-run", "drop", "--json")
    assert json.loads(done.out)["workload"]["dropped"] == {"run time 0": 1}
    assert "zero: left out 1 job: run time 0\n" in done.err


def test_an_empty_result_is_null_never_nan(backfill, tmp_path):
    (tmp_path / "large.csv").write_text("job,submit,runtime,procs\na,0,10,5\n")
    found = json.loads(backfill("simulate", "large.csv", *ON4, "--json").out)
    assert found["metrics"]["mean_wait_s"] is None
    assert found["metrics"]["rejected_jobs"] == 1


def test_promises_of_one_job(backfill):
    out = backfill("simulate", "tiny.csv", *ON4, "--policy", "conservative", "--promise", "d").out
    assert out.endswith(
        "job d: at day 0 00:00:03 promised to start at day 0 00:02:40\n"
        "job d: at day 0 00:02:30 promised to start at day 0 00:02:30: capacity became free\n"
    )
    done = backfill("simulate", "tiny.csv", *ON4, "--promise", "a", "--json")
    assert json.loads(done.out)["promise"] == {"job": "a", "history": []}


def test_a_page_and_a_verified_schedule(backfill, tmp_path):
    done = backfill("simulate", "tiny.csv", *ON4, "--verify", "--report", "out.html")
    assert done.code == 0
    assert "lawful: 4 jobs checked\n" in done.err
    page = (tmp_path / "out.html").read_text()
    assert "backfill simulate tiny.csv --cpus 4 --verify --report out.html" in page


def test_promises_made_on_walltimes_that_do_not_hold_bind_nobody(backfill):
    """What the policy sees is half of what jobs need, so it promises too much; that is no fault of its schedule."""
    words = ("simulate", "model:lublin?jobs=300&cpus=64&load=0.9&seed=3", "--policy", "conservative", "--verify")
    done = backfill(*words, "--estimates", "inflate:0.5", "--json")
    assert done.code == 0
    assert "lawful: 300 jobs checked" in done.err
    assert json.loads(done.out)["violations"] == []


def test_memory_is_a_resource_of_the_pool(backfill, tmp_path):
    (tmp_path / "memory.csv").write_text("job,submit,runtime,memory\na,0,10,6G\nb,0,10,6G\n")
    alone = json.loads(backfill("simulate", "memory.csv", *ON4, "--memory", "8G", "--json").out)
    beside = json.loads(backfill("simulate", "memory.csv", *ON4, "--memory", "16G", "--json").out)
    assert (alone["metrics"]["max_wait_s"], beside["metrics"]["max_wait_s"]) == (10, 0)


def test_a_policy_in_a_file(backfill):
    file = FILES / "mine.py"
    easy = backfill("simulate", "tiny.csv", *ON4, "--schedule", "-").out
    assert backfill("simulate", "tiny.csv", *ON4, "--schedule", "-", "--policy", f"{file}:mine").out == easy
    fcfs = backfill("simulate", "tiny.csv", *ON4, "--schedule", "-", "--policy", "fcfs").out
    assert backfill("simulate", "tiny.csv", *ON4, "--schedule", "-", "--policy", f"{file}:mine:short=97").out == fcfs
    assert backfill("simulate", "tiny.csv", *ON4, "--schedule", "-", "--policy", f"{file}:plain").out == fcfs


USAGE = {
    "no cpus": (("tiny.csv",), "tiny does not state how many cpus the machine has; give --cpus N or --platform FILE"),
    "a page": (("tiny.csv", *ON4, "--report", "out.pdf"), "--report is 'out.pdf'; expected the name of an HTML page"),
    "capitals": (
        ("tiny.csv", *ON4, "--policy", "EASY"),
        "unknown policy 'EASY'; did you mean easy? See backfill policies",
    ),
    "policy": (
        ("tiny.csv", *ON4, "--policy", "eazy"),
        "unknown policy 'eazy'; did you mean easy? See backfill policies",
    ),
    "parameter": (
        ("tiny.csv", *ON4, "--set", "k=2"),
        "policy easy has no parameter 'k'; known: order, tried, place",
    ),
    "set": (("tiny.csv", *ON4, "--set", "k"), "--set is 'k'; expected KEY=VALUE with a number, for instance k=4"),
    "number": (("tiny.csv", *ON4, "--policy", "k-reservations:k=x"), "--policy is 'k=x'; expected KEY=VALUE with"),
    "bounds": (
        ("tiny.csv", *ON4, "--policy", "k-reservations", "--set", "k=-1"),
        "k is -1; expected a whole number from 0 to inf",
    ),
    "nan": (("tiny.csv", *ON4, "--policy", "k-reservations:k=nan"), "k is nan; expected a whole number from 0 to"),
    "estimates": (("tiny.csv", *ON4, "--estimates", "uniform"), "--estimates is 'uniform'; expected requested, exact,"),
    "ties": (("tiny.csv", *ON4, "--ties", "both"), "--ties is 'both'; expected batch or step"),
    "step and extend": (
        ("tiny.csv", *ON4, "--ties", "step", "--overrun", "extend"),
        "cannot be combined with overrun extend",
    ),
    "two platforms": (("tiny.csv", *ON4, "--platform", "x.toml"), "--cpus, --nodes and --memory cannot be combined"),
    "two results": (("tiny.csv", *ON4, "--schedule", "-", "--json"), "cannot both use standard output"),
    "uneven": (
        ("tiny.csv", *ON4, "--nodes", "3"),
        "--nodes is 3; expected 1 to 1000000 nodes that share 4 cpus evenly",
    ),
    "size": (
        ("tiny.csv", *ON4, "--memory", "much"),
        "--memory is 'much'; expected a whole number below 2^62 that may carry K, M,",
    ),
    "jobs": (("tiny.csv", *ON4, "--jobs", "0"), "--jobs is 0; expected a whole number >= 1"),
    "load": (("tiny.csv", *ON4, "--load", "nan"), "--load is nan; expected a finite number > 0"),
    "warmup": (
        ("tiny.csv", *ON4, "--warmup", "soon"),
        "--warmup is 'soon'; expected a number of jobs or a span of time",
    ),
    "zero run": (("tiny.csv", *ON4, "--zero-run", "all"), "--zero-run is 'all'; expected keep, drop-cancelled, drop"),
    "promise": (("tiny.csv", *ON4, "--promise", "z"), "--promise is 'z'; expected the id of one of the 4 jobs of tiny"),
    "model": (("model:lubin",), "unknown workload model 'lubin'; did you mean lublin?"),
    "model key": (("model:lublin?jobs=5&size=3",), "model lublin: unknown key 'size'; known: jobs,"),
}


@pytest.mark.parametrize("arguments", USAGE)
def test_a_usage_error_is_one_line_and_exit_2(backfill, arguments):
    words, complaint = USAGE[arguments]
    done = backfill("simulate", *words, "-q")
    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1
    assert complaint in done.complaint


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("simulat", "x.csv"), "unknown command 'simulat'; did you mean simulate? See backfill --help"),
        (("xyz",), "unknown command 'xyz'; see backfill --help"),
        (("pool", "reprt"), "unknown command 'reprt'; did you mean report? See backfill pool --help"),
        (
            ("submit", "--tme", "3", "--", "true"),
            "unknown option --tme; did you mean --time? See backfill submit --help",
        ),
        (("queue", "--xyz"), "unknown option --xyz; see backfill queue --help"),
        (("queue", "--state", "runing"), "--state: RUNING is not a state; did you mean RUNNING?"),
        (("reproduce", "gird"), "unknown paper 'gird'; did you mean grid?"),
        (("simulate", "sample:eagl"), "sample:eagl is unknown; did you mean sample:eagle?"),
    ],
)
def test_an_unknown_word_is_answered_with_the_nearest_one(backfill, words: tuple[str, ...], complaint: str):
    done = backfill(*words)
    assert (done.code, done.complaint) == (2, complaint)


def test_an_unknown_option_is_exit_2(backfill):
    done = backfill("simulate", "tiny.csv", "--cpu", "4")
    assert done.code == 2
    assert "unknown option --cpu; did you mean --cpus? See backfill simulate --help" in done.err
    assert "Traceback" not in done.err


BAD = {
    "missing": ("missing.swf", b"", "missing.swf: cannot be read: No such file or directory"),
    "suffix": ("jobs.txt", b"x", "jobs.txt: unknown suffix; expected .swf,"),
    "empty": ("empty.csv", b"", "empty.csv: is empty"),
    "cut": (
        "cut.swf.gz",
        gzip.compress(b"; MaxProcs: 4\n1 0 0 5 1\n" * 99, mtime=0)[:40],
        "cut.swf.gz: is a damaged gzip file:",
    ),
    "text": ("text.csv", b"job,submit,runtime\na,0,5\nb,soon,5\n", "text.csv:3: submit is 'soon'"),
    "field": ("field.swf", b"1 0 0 5 1 0 0 x 5 0 1 1 1 1 1 1 1 1\n", "field.swf:1: "),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_3(backfill, tmp_path, name):
    file, data, complaint = BAD[name]
    if name != "missing":
        (tmp_path / file).write_bytes(data)
    done = backfill("simulate", file, *ON4, "--schedule", "out.csv")
    assert (done.code, done.out, len(done.err.splitlines())) == (3, "", 1)
    assert complaint in done.complaint
    assert not (tmp_path / "out.csv").exists()


def test_a_bad_platform_is_exit_3(backfill, tmp_path):
    (tmp_path / "farm.toml").write_text('[[node]]\nname = "m"\nspeed = -1\n')
    done = backfill("simulate", "tiny.csv", "--platform", "farm.toml")
    assert done.code == 3
    assert done.complaint == "farm.toml: node m: speed is -1; expected a number from 0.000001 to 1,000,000"


def test_a_file_that_cannot_be_written_is_exit_1_before_the_work_begins(backfill):
    done = backfill("simulate", "missing.csv", "--report", "nowhere/out.html")
    assert done.code == 1
    assert done.complaint == "nowhere/out.html: cannot be written: there is no such folder"


def test_a_rude_policy_is_exit_1(backfill):
    done = backfill("simulate", "tiny.csv", *ON4, "--policy", f"{FILES / 'mine.py'}:rude")
    assert done.code == 1
    what = (
        "policy rude, at day 0 00:00:01: starts job b, which needs 4 cpus; free: 1 "
        "(job b: submitted at day 0 00:00:01, waiting)"
    )
    assert done.complaint == f"{FILES / 'mine.py'}:55: {what}"


def test_a_schedule_that_fails_verification_is_exit_5(backfill, monkeypatch):
    from backfill.analysis.verify import Violation

    monkeypatch.setattr("backfill.api.check", lambda *_, **__: [Violation("start", "a", 0, "is before its submit")])
    done = backfill("simulate", "tiny.csv", *ON4, "--verify", "-q")
    assert done.code == 5
    assert done.err.splitlines()[0] == "start: job a at day 0 00:00:00: is before its submit"
    assert done.complaint == "the schedule of easy did not pass verification"


def test_starts_reserved_behind_walltimes_beyond_all_time_are_one_line(backfill, tmp_path):
    """Fourteen jobs that run for 5 s, each at the start that it was promised behind walltimes of 3,000 years."""
    rows = [f"j{i},{i},5,{10**11},4" for i in range(14)]
    (tmp_path / "far.csv").write_text("\n".join(["job,submit,runtime,walltime,procs", *rows]))
    done = backfill("simulate", "far.csv", "--cpus", "4", "--policy", "2tsb", "-q")
    assert (done.code, len(done.err.splitlines())) == (3, 1)
    assert "job j12 would end more than 30,000 years from now; a run time, a walltime or a speed" in done.complaint


def test_verbose_adds_the_cause(backfill):
    done = backfill("simulate", "tiny.csv", "--verbose")
    assert done.code == 2
    assert "Traceback" in done.err
    assert "UsageError" in done.err


def test_a_schedule_that_runs_beyond_all_time_is_one_line(backfill, tmp_path):
    """A hundred jobs of 3,000 years each, one after the other, on nodes of a thousandth of the speed."""
    rows = [f"j{i},0,{10**11},{10**11},1" for i in range(100)]
    (tmp_path / "long.csv").write_text("\n".join(["job,submit,runtime,walltime,procs", *rows]))
    (tmp_path / "slow.toml").write_text("[[node]]\ncpus = 1\nspeed = 0.001\n")
    for more in (("--cpus", "1"), ("--platform", "slow.toml", "--overrun", "extend")):
        done = backfill("simulate", "long.csv", *more, "-q")
        assert done.code == 3
        assert (
            "would end more than 30,000 years from now; a run time, a walltime or a speed must be wrong"
            in done.complaint
        )


def test_a_dead_time_holds_nodes_after_each_run(backfill):
    words = ["simulate", "tiny.csv", "--cpus", "4", "--policy", "fcfs"]
    done = backfill(*words, "--dead-time", "3s", "--verify", "--json", "--schedule", "out.csv")
    told, plain = json.loads(done.out), json.loads(backfill(*words, "--json").out)
    assert told["options"]["dead_time_s"] == 3
    assert "dead_time_s" not in plain["options"]
    assert told["metrics"]["mean_wait_s"] == plain["metrics"]["mean_wait_s"] + (3 + 6 + 6) / 4
    responses = [each["metrics"]["mean_response_s"] - each["metrics"]["mean_wait_s"] for each in (told, plain)]
    assert responses[0] == responses[1], "the run time without the dead time"
    assert "each run holds its nodes 3 s longer than it runs (dead time)" in done.err
    assert done.err.rstrip().endswith("verify tiny.csv out.csv --cpus 4 --dead-time 3s")
    assert backfill("verify", "tiny.csv", "out.csv", "--cpus", "4", "--dead-time", "3s").code == 0
    assert backfill("verify", "tiny.csv", "out.csv", "--cpus", "4").code == 5, "the ends are not those of the jobs"
    refused = backfill(*words, "--dead-time", "soon")
    assert (refused.code, refused.complaint) == (
        2,
        "--dead-time is 'soon'; expected a span of time, for instance 1s or 500ms",
    )
