"""`--json` of every verb: what is printed has its published schema, and errors are JSON too."""

import json
from pathlib import Path

import pytest
import typer

from backfill.cli import app
from backfill.client.options import VERBS
from tests.schemas import FOLDER, check

COMMAND = typer.main.get_command(app)
HELP = {verb: command for verb, command in COMMAND.commands.items() if verb != "pool"}
OF_POOL = COMMAND.commands["pool"].commands


def options(command):
    return {name for parameter in command.params for name in parameter.opts}


def test_every_verb_can_print_json_and_has_a_published_schema():
    for verb, command in [*HELP.items(), *((f"pool-{name}", one) for name, one in OF_POOL.items())]:
        if verb in VERBS:
            assert any("--json" in option.each for option in VERBS[verb].options), verb
        else:
            assert "--json" in options(command), verb
        assert (FOLDER / f"{verb}.json").exists(), verb


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("simulate", ("tiny.csv", "--cpus", "4")),
        ("simulate", ("tiny.csv", "--cpus", "4", "--policy", "easy", "--explain", "b")),
        ("compare", ("tiny.csv", "--cpus", "4", "--policy", "fcfs", "--policy", "easy")),
        ("compare", ("model:lublin?jobs=60", "--cpus", "64", "--policy", "fcfs", "--policy", "easy",
                     "--replications", "2")),
        ("optimum", ("tiny.csv", "--cpus", "4")),
        ("policies", ()),
        ("policies", ("k-reservations",)),
        ("reproduce", ()),
        ("generate", ("lublin", "--jobs", "9", "--cpus", "64", "--out", "jobs.swf")),
        ("generate", ("farm", "--jobs", "9", "--out", "farm.csv")),
        ("anonymize", ("tiny.csv", "--out", "share.csv", "--aliases", "secret.csv")),
        ("import", ("csv", "tiny.csv", "--out", "clean.csv")),
        ("demo", ()),
    ],
)  # fmt: skip
def test_what_is_printed_has_the_published_schema(backfill, verb, words):
    done = backfill(verb, *words, "--json")
    assert done.code == 0, done.err
    check(verb, done.out)


SHORTEST = """
import backfill as bf
from backfill.verbs import head, reserve, shadow_time, start_heads


@bf.policy("shortest", order="sjf", compiled=False)
def shortest(state):
    start_heads(state)
    if state.queue.waiting:
        reserve(state, head(state), shadow_time(state, head(state)))
"""


def test_the_jobs_that_a_policy_preferred_are_in_the_published_schema(backfill):
    Path("shortest.py").write_text(SHORTEST)
    Path("four.csv").write_text("job,submit,runtime,procs,user\na,0,100,3,\nb,1,10,4,bob\nd,1,11,4,\nc,2,60,1,\n")
    words = ["four.csv", "--cpus", "4", "--policy", "shortest.py:shortest", "--explain", "c", "--json"]
    (cause, _) = check("simulate", backfill("simulate", *words).out)["explanation"]["causes"]
    first = [{"job": "b", "user": "bob", "time_s": 98.0}, {"job": "d", "user": None, "time_s": 98.0}]
    assert cause["ahead"] == {"count": 2, "first": first}


def test_schemas_of_files_that_are_read_again(backfill):
    backfill("simulate", "tiny.csv", "--cpus", "4", "--schedule", "run.csv", "--save", "run")
    check("verify", backfill("verify", "tiny.csv", "run.csv", "--cpus", "4", "--json").out)
    check("report", backfill("report", "run", "--json").out)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("simulate", "nothing.csv"), 3, "nothing.csv: cannot be read"),
        (("simulate", "tiny.csv", "--cpus", "4", "--policy", "eazy"), 2, "unknown policy 'eazy'; did you mean easy"),
        (("simulate", "tiny.csv", "--cpuz", "4"), 2, "unknown option --cpuz; did you mean --cpus?"),
        (("queue", "--lines", "many"), 2, "--lines: 'many' is not a whole number"),
    ],
)
def test_an_error_is_json_too(backfill, words, code, message):
    done = backfill(*words, "--json")
    assert (done.code, done.out) == (code, "")
    told = check("error", done.err.splitlines()[-1])["error"]
    assert told["exit_code"] == code
    assert message in told["message"]


def test_the_word_behind_a_command_is_not_an_option_of_submit(backfill):
    done = backfill("submit", "--time", "long", "--", "tool", "--json")
    assert done.complaint.startswith("--time: 'long'")


def test_a_schema_that_describes_less_than_is_printed_is_found(monkeypatch):
    monkeypatch.setattr("tests.schemas.WRITE", False)
    with pytest.raises(AssertionError, match="Additional properties"):
        check("error", json.dumps({"schema": 1, "error": {"message": "", "exit_code": 1, "colour": 1}}))
    with pytest.raises(AssertionError, match="required property"):
        check("error", json.dumps({"schema": 1, "error": {"message": ""}}))
