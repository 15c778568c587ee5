"""Projects with a real daemon: the file, what `submit` answers, `show`, `eta`, `queue` and `cancel` of a project."""

import json
import re
from pathlib import Path

import pytest

from backfill.client.projects import File, promise_lines
from tests.queue.test_cluster import CLUSTER, settings

CLIMATE = """\
name = "climate"

[defaults]
time = "30s"

[[job]]
name = "mesh"
command = "sleep 2; echo mesh >> ran"

[[job]]
name = "air"
command = ["sh", "-c", "echo air >> ran"]
cpus = 2
after = "mesh"

[[job]]
name = "ocean"
script = "ocean.sh"
arguments = ["deep"]
after = ["mesh"]

[[job]]
name = "join"
command = "echo join >> ran"
after = ["air", "afterany:ocean"]
"""


def write(live, text, name="climate.toml"):
    (live.folder / name).write_text(text)
    (live.folder / "ocean.sh").write_text("#!/bin/sh\n#BACKFILL --cpus 3\necho ocean $1 >> ran\nexit 3\n")
    return name


def sleepers(name, *cpus, seconds=60):
    jobs = [f'[[job]]\nname = "j{n}"\ncommand = "sleep {seconds}"\ncpus = {each}\n' for n, each in enumerate(cpus)]
    return f'name = "{name}"\n[defaults]\ntime = "{seconds}s"\n' + "".join(jobs)


def submit(live, *words):
    return json.loads(live.run("submit", "--json", *words).stdout)


def shown(live, name="climate"):
    return json.loads(live.run("show", "--project", name, "--json").stdout)


def test_a_project_runs_in_its_order_and_is_promised_its_departure(live):
    live.configure("2tsb")
    file = write(live, CLIMATE)
    told = submit(live, "--project", file)
    assert (told["project"], told["count"], told["policy"], told["departs"]) == ("climate", 4, "2tsb", True)
    assert told["left"] == 3
    assert told["promised_s"] is not None
    assert told["promised_s"] <= told["median_s"] <= told["p90_s"]  # of the whole, which the promise is not
    live.run("wait", "--project", "climate", check=3)
    ran = (live.folder / "ran").read_text().split("\n")
    assert (ran[0], sorted(ran[1:3]), ran[3]) == ("mesh", ["air", "ocean deep"], "join")
    found = shown(live)
    jobs = {job["name"]: job for job in found["jobs"]}
    assert {name: job["need"]["cpus"] for name, job in jobs.items()} == {"mesh": 1, "air": 2, "ocean": 3, "join": 1}
    assert found["states"] == {"COMPLETED": 3, "FAILED": 1}
    assert found["end_s"] == max(job["end_s"] for job in found["jobs"])
    assert found["promises"][0]["cause"] == "given"
    assert found["promises"][-1]["left"] == 0
    assert found["slip_s"] == 0
    text = live.run("show", "--project", "climate").stdout
    assert "no later than first promised" in text
    assert "promises no departures" not in text
    assert "its tables match the log" in live.run("doctor", "--deep", check=None).stdout


def test_the_answer_to_a_submit_is_the_promise_and_it_survives_restarts(live):
    live.configure("2tsb")
    write(live, sleepers("p", 4, 4, 2), "p.toml")
    told = submit(live, "--project", "p.toml")
    first = live.until(lambda: shown(live, "p")["start_s"])
    assert told["promised_s"] - first == pytest.approx(3 * 61, abs=0.1)  # walltimes, and the grace of 1 s
    assert told["left"] == 0
    assert told["median_s"] is None  # nothing to estimate
    live.run("serve", "--stop")
    assert shown(live, "p")["promised_s"] == told["promised_s"]
    live.kill(live.daemon())
    assert shown(live, "p")["promised_s"] == told["promised_s"]
    live.until(lambda: shown(live, "p")["settled"])
    assert len(shown(live, "p")["promises"]) == 1
    text = live.run("submit", "--project", write(live, sleepers("q", 1), "q.toml")).stdout
    assert "promised departure: " in text
    assert "(policy 2tsb)" in text
    assert "likely" not in text


def test_a_policy_without_promises_gives_an_estimate_and_says_so(live):
    live.configure("easy")
    write(live, sleepers("p", 4, 4), "p.toml")
    text = live.run("submit", "--project", "p.toml").stdout
    assert "promised departure" not in text
    assert "an estimate, no promise; policy easy promises no departures" in text
    assert "policy easy promises no departures" in live.run("eta", "--project", "p").stdout
    told = json.loads(live.run("eta", "--project", "p", "--json").stdout)
    assert told["departure"]["promised_s"] is None
    assert told["departure"]["median_s"] > told["now_s"]
    assert [job["name"] for job in told["jobs"]] == ["j1"]
    assert shown(live, "p")["promises"] == []


def test_a_slip_is_told_with_its_cause(live):
    live.configure("2tsb")
    write(live, sleepers("p", 4, 4, seconds=30), "p.toml")
    live.run("submit", "--project", "p.toml")
    first, last = (job["id"] for job in shown(live, "p")["jobs"])
    live.run("submit", "--project", "p", "--time", "90s", "--cpus", 4, "--", "true")
    live.until(lambda: len(shown(live, "p")["promises"]) == 2)
    found = shown(live, "p")
    assert found["slip"] == "more-jobs"
    assert found["slip_s"] == pytest.approx(91, abs=2)
    assert found["promised_s"] - found["first_promised_s"] == found["slip_s"]
    assert "later than first promised: more-jobs" in live.run("show", "--project", "p").stdout
    live.run("serve", "--policy", "easy", "--drop-promises")
    live.until(lambda: shown(live, "p")["promises"][-1]["cause"] == "policy-switched")
    assert shown(live, "p")["promised_s"] is None
    assert {job["id"] for job in live.request("queue", projects=["p"])["jobs"]} == {first, last, last + 1}
    assert live.request("queue", projects=["q"])["jobs"] == []
    assert "cancelled 3 jobs" in live.run("cancel", "--project", "p").stdout
    live.until(lambda: shown(live, "p")["end_s"] is not None)


def test_a_project_on_a_cluster(live):
    (live.folder / "cluster.toml").write_text(CLUSTER)
    settings(live, 'platform = "cluster.toml"', 'pool = "fake:600"')
    config = live.folder / "config.toml"
    config.write_text(config.read_text().replace("easy", "2tsb"))
    write(live, CLIMATE.replace('"30s"', '"2h"').replace("cpus = 2", 'nodes = 2\ncpus = 16\nmem = "100G"'))
    told = submit(live, "--project", "climate.toml")
    assert told["promised_s"] is not None
    live.run("wait", "--project", "climate", check=None)
    found = shown(live)
    assert found["end_s"] is not None
    air = next(job for job in found["jobs"] if job["name"] == "air")
    assert len(air["nodes"]) == 2
    assert found["promises"][-1]["left"] == 0
    assert found["slip_s"] == 0


def test_a_test_stores_nothing_and_tells_the_promise(live):
    live.configure("2tsb")
    write(live, sleepers("p", 4, 2), "p.toml")
    live.run("serve", "--detach")
    text = live.run("submit", "--project", "p.toml", "--test-only").stdout
    assert "project p: 2 jobs, of which 1 would start now" in text
    assert "promised departure: " in text
    assert live.run("show", "--project", "p", check=1).stderr == "backfill: there is no project p\n"
    told = json.loads(live.run("submit", "--project", "p.toml", "--test-only", "--json", "-J", "other").stdout)
    assert told["project"] == "other"
    assert told["departure"]["promised_s"] - told["now_s"] == pytest.approx(122, abs=2)
    assert live.jobs() == []


def test_a_paused_queue_promises_later(live):
    live.configure("2tsb")
    write(live, sleepers("p", 4), "p.toml")
    live.run("pause")
    text = live.run("submit", "--project", "p.toml").stdout
    assert "policy 2tsb promises the departure once the queue is no longer paused" in text
    live.run("resume")
    live.until(lambda: shown(live, "p")["promised_s"] is not None)
    assert shown(live, "p")["promises"][0]["cause"] == "given"
    live.run("cancel", "--project", "p")
    live.run("wait", "--project", "p", check=None)
    assert "1 of 1 promised departures of projects kept" in live.run("eta", "--accuracy").stdout


JOB = '[[job]]\nname = "a"\ncommand = "true"\n'


@pytest.mark.parametrize(
    ("text", "told", "code"),
    [
        ("name = x\n", "climate.toml:1: is not valid TOML: Invalid value", 2),
        ("", "climate.toml: no job; expected at least one table [[job]]", 2),
        ("title = 3\n" + JOB, "climate.toml:1: unknown key 'title'; expected name, [defaults] or [[job]]", 2),
        ("name = 3\n" + JOB, "climate.toml:1: name is 3; expected a text", 2),
        (JOB + '[[job]]\ncommand = "true"\n', "climate.toml:4: job 2 has no name; expected a text", 2),
        (JOB + JOB, "climate.toml:5: name 'a' is that of an earlier job; expected another one", 2),
        ('[[job]]\nname = "a"\n', "climate.toml:2: job a has neither command nor script; expected one of them", 2),
        (JOB + 'script = "x"\n', "climate.toml:4: job a has command and script; expected one of them", 2),
        ('[[job]]\nname = "a"\ncommand = 7\n', "climate.toml:3: command is 7; expected a text for the shell, or a", 2),
        ('[[job]]\nname = "a"\nscript = "no.sh"\n', "climate.toml:3: script: no.sh: No such file", 2),
        (JOB + "cpu = 3\n", "climate.toml:4: unknown key 'cpu'; did you mean cpus?", 2),
        (JOB + "array = 3\n", "climate.toml:4: unknown key 'array'; expected", 2),
        (JOB + 'cpus = "many"\n', "climate.toml:4: cpus: 'many' is not", 2),
        (JOB + "cpus = true\n", "climate.toml:4: cpus: True; expected a text or a number", 2),
        (JOB + "exclusive = 1\n", "climate.toml:4: exclusive: 1; expected true or false", 2),
        ("[defaults]\ntime = -3\n" + JOB, "climate.toml:2: time: '-3' is not", 2),
        (JOB + 'after = "b"\n', "climate.toml:4: after: there is no job 'b'; expected the name of another job", 2),
        (JOB + 'after = "afterok:b"\n', "climate.toml:4: after: there is no job 'b'; expected", 2),
        (JOB + "after = 3\n", "climate.toml:4: after is 3; expected names of jobs", 2),
        (JOB + 'after = "a"\n', "climate.toml:4: jobs come after each other: a before a", 3),
        (
            JOB + 'after = "b"\n' + JOB.replace('"a"', '"b"') + 'after = "a"\n',
            "jobs come after each other: a before b before a",
            3,
        ),
        (JOB + "cpus = 64\n", "climate.toml:4: job a: the job asks for 64 cpus; the machine has 4", 3),
        (JOB + 'constraint = "x"\n', "climate.toml:4: job a: the machine has no features to choose from", 2),
    ],
)
def test_a_file_with_a_mistake_is_told_with_its_line_and_nothing_is_queued(live, text, told, code):
    write(live, text)
    done = live.run("submit", "--project", "climate.toml", check=code)
    assert told in done.stderr
    assert done.stderr.startswith("backfill: climate.toml")
    assert done.stderr.count("\n") == 1
    if live.daemon():
        assert live.jobs() == []


def test_what_does_not_go_with_a_project_file_is_said(live):
    write(live, JOB)
    done = live.run("submit", "--project", "climate.toml", "--time", "3", check=2)
    assert "--time does not go with a project file; expected it in its [defaults]" in done.stderr
    assert "no command, and no file nothing" in live.run("submit", "--project", "nothing", check=2).stderr
    assert "cannot be combined" in live.run("show", "--project", "p", "3", check=2).stderr
    live.run("submit", "--project", "climate.toml", "--quiet", "--wait")
    done = live.run("submit", "--project", "climate.toml", check=1)
    assert "there is a project climate already; expected another name" in done.stderr
    assert live.run("submit", "--project", "climate.toml", "-J", "again", "--parsable").stdout == "again\n"


def test_the_file_of_the_reference_page_can_be_read(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs/reference/files.md").read_text()
    (tmp_path / "climate.toml").write_text(re.search(r"```python\n(# file: climate.toml\n.*?)```", page, re.DOTALL)[1])
    (tmp_path / "report.sh").write_text("#!/bin/sh\n#SBATCH --mem=1G --time=5\n")
    monkeypatch.chdir(tmp_path)
    file = File("climate.toml")
    mesh, ocean, report = file.request()["jobs"]
    assert [one["job"]["name"] for one in (mesh, ocean, report)] == ["mesh", "ocean", "report"]
    assert mesh["job"]["walltime"] == ocean["job"]["walltime"] == 2 * 3600 * 10**6
    assert ocean["job"]["need"] == {"cpus": 4, "memory": 8 << 30}
    assert report["job"]["need"] == {"cpus": 1, "memory": 1 << 30}
    assert report["job"]["walltime"] == 5 * 60 * 10**6  # of the script, before [defaults]
    assert report["spec"]["argv"] == ["report.sh", "--final"]
    assert report["after"] == [["afterok", 0], ["afterany", 1]]


def test_of_many_promises_the_first_and_the_last_are_printed():
    def row(n, departure_s):
        return {"at_s": n, "departure_s": departure_s, "left": n % 3, "cause": "more-jobs", "job": 1, "by": 0,
                "by_project": ""}  # fmt: skip

    lines = promise_lines([row(n, 1000.0 * (n // 2)) for n in range(60)])  # each of 30 departures twice
    assert (len(lines), lines[1].strip()) == (21, "and 10 more; --json has all of them")
    assert [line.count("departure") for line in lines] == [1, 0] + [1] * 19
    assert len(promise_lines([row(n, 1000.0) for n in range(60)])) == 1
