"""Mistakes in a user's own policy file are one line that says where."""

import json
import os

import pytest

from .conftest import FILES

GOOD = """from backfill import policy
from backfill.verbs import HEAD, head, kernel, place, start

@kernel()
def first(state):
    return head(state)

@policy("mine")
def mine(state):
    job = first(state)
    while job >= 0 and place(state, job):
        start(state, job, HEAD)
        job = first(state)
"""
# what is put in place of what -> the message
MISTAKES = {
    "syntax": ("while job >= 0 and", "while job >= and", "mine.py:11: is not valid Python: invalid syntax"),
    "import": ("import HEAD", "import HEED", "mine.py:2: ImportError: cannot import name 'HEED' from 'backfill.verbs'"),
    "at import": ("@kernel()", "1 / 0", "mine.py:4: ZeroDivisionError: division by zero"),
    "field": ("job = first(state)", "job = state.frist", "mine.py:10: state has no field 'frist'"),
    "name": (
        "first(state)\n    while",
        "frist(state)\n    while",
        "mine.py:10: unknown name 'frist'; did you mean first?",
    ),
    "name in a helper": ("return head(", "return haed(", "mine.py:6: unknown name 'haed'; did you mean head?"),
    "arguments": (
        "place(state, job)",
        "place(state)",
        "mine.py:11: policy mine does not compile: missing a required argument: 'job'",
    ),
    "field in a helper": (
        "head(state)",
        "state.queue.waitin",
        "mine.py:6: state.queue has no field 'waitin'; did you mean waiting?",
    ),
    "operation in a helper": (
        "head(state)",
        "head(state) + 'x'",
        "mine.py:6: policy mine does not compile: no such operation as add(int64, 'x')",
    ),
    "argument of a verb": (
        "start(state, job, HEAD)",
        "start(state, job, 'head')",
        "mine.py:12: policy mine does not compile: no such call: start(State, int64, 'head')",
    ),
    "argument of a verb that is part of its caller": (
        "place(state, job)",
        "place(state, job=0.5)",
        "mine.py:11: policy mine does not compile: no such call: place(State, float64)",
    ),
    "plain helper": ("@kernel()\n", "", "mine.py:9: first is a plain function; expected @kernel() above it"),
    "value": (
        "        job = first(state)\n",
        "        job = first(state)\n    return job\n",
        "mine.py:14: policy mine returns a value; expected none",
    ),
    "answer": (
        '("mine")',
        '("mine", ordr="sjf")',
        "mine.py:8: policy mine: unknown answer 'ordr'; did you mean order?",
    ),
    "order": ('("mine")', '("mine", order="sfj")', "mine.py:8: policy mine: order 'sfj' is unknown"),
    "parameter": (
        '("mine")',
        '("mine", params={"k": 3})',
        "mine.py:8: policy mine: parameter k is 3; expected Param(default, ...)",
    ),
    "two of a name": (
        '@policy("mine")',
        '@policy("mine")\ndef other(state):\n    first(state)\n\n@policy("mine")',
        "mine.py: two policies are called 'mine'; expected different names",
    ),
    "index": (
        "job = first(state)\n    while",
        "job = state.jobs.submit[9]\n    while",
        "mine.py:10: index is out of bounds, at day 0 00:00:00",
    ),
    "division": (
        "job = first(state)\n    while",
        "job = first(state) // (state.queue.waiting - state.queue.waiting)\n    while",
        "mine.py:10: integer division by zero, at day 0 00:00:00",
    ),
    "a fraction": (
        '@policy("mine")\ndef mine(state):\n',
        '@policy("mine", memory={"k": 1})\ndef mine(state):\n    state.own.k[0] += 0.5\n',
        "mine.py:10: a float is assigned to whole numbers; expected a whole number, such as int(...), or memory_f for",
    ),
    "a fraction, in plain Python": (
        '@policy("mine")\ndef mine(state):\n',
        '@policy("mine", memory={"k": 1}, compiled=False)\ndef mine(state):\n    state.own.k[0] += 0.5\n',
        "mine.py:10: policy mine: TypeError: a float is assigned to whole numbers; expected a whole number, "
        "such as int",
    ),
    "clock": (
        "@kernel()\ndef first(state):\n",
        "import time\n\n@kernel()\ndef first(state):\n    time.time()\n",
        "mine.py:8: time: compiled code has no such module; state.now is the present",
    ),
    "list": (
        "@kernel()\ndef first(state):\n",
        "TABLE = [1, 2]\n\n@kernel()\ndef first(state):\n    TABLE[0]\n",
        "mine.py:8: TABLE is a list, which compiled code cannot use; expected a tuple or a numpy array",
    ),
    "run time": ("head(state)", "state.runtime[0]", "mine.py:6: state has no field 'runtime': policies cannot see it"),
    "a write": (
        "job = first(state)\n    while",
        "state.free[0, 0] = 1000000\n    job = first(state)\n    while",
        "mine.py:10: state.free[0, 0] is read-only; a policy writes only its own memory, state.own, and ",
    ),
    "a write in a helper": (
        "return head(state)",
        "free = state.free\n    free.nodes[0, 0] = 9\n    return head(state)",
        "mine.py:7: free.nodes[0, 0] is state.free.nodes[0, 0], which is read-only; ",
    ),
    "a pass without end": (
        "        job = first(state)\n",
        "        job = 0\n",
        "mine.py:11: policy mine, at day 0 00:00:00: calls place for job a, which is not waiting "
        "(job a: submitted at day 0 00:00:00, started at day 0 00:00:00)",
    ),
    "index in a helper": (
        "head(state)",
        "state.jobs.user[-9]",
        "mine.py:6: index is out of bounds, at day 0 00:00:00",
    ),
    "error that it raises": (
        "        start(",
        "        raise ValueError('no')\n        start(",
        "mine.py:12: policy mine: ValueError: no",
    ),
    "an exit": (
        '@policy("mine")\ndef mine(state):\n',
        '@policy("mine", compiled=False)\ndef mine(state):\n    raise SystemExit(0)\n',
        "mine.py:10: policy mine: SystemExit: 0",
    ),
    "import in a pass": (
        "        start(",
        "        import os\n        start(",
        "mine.py:12: compiled code cannot import; expected the import at the top of the file",
    ),
    "import in a pass, in object mode": (
        "        start(state, job, HEAD)\n        job = first(state)\n",
        "        with objmode():\n            import os\n        job = first(state)\n\nfrom numba import objmode\n",
        "mine.py:13: compiled code cannot import; expected the import at the top of the file",
    ),
    "import in a helper": (
        "    return head(",
        "    import os\n    return head(",
        "mine.py:6: compiled code cannot import; expected the import at the top of the file",
    ),
    "no decorator": ('@policy("mine")\n', "", "mine.py:8: mine is a plain function; expected @policy('mine') above it"),
    "other name": (
        '@policy("mine")\ndef mine',
        '@policy("yours")\ndef yours',
        "mine.py: has no policy 'mine'; policies: yours",
    ),
    "no function": ('@policy("mine")\ndef mine', "mine = 3\ndef yours", "mine.py: mine is a plain int"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_with_its_place(backfill, tmp_path, mistake):
    old, new, message = MISTAKES[mistake]
    assert old in GOOD
    (tmp_path / "mine.py").write_text(GOOD.replace(old, new, 1))
    done = backfill("simulate", "tiny.csv", "--cpus", "4", "--policy", "mine.py:mine", "-q")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert done.complaint.startswith(message)


def test_functions_that_the_policy_does_not_call_may_be_what_they_like(backfill, tmp_path):
    more = """
def plot(result):
    plt.plot(result.schedule.start)

@policy("broken")
def broken(state):
    state.nothing = nowhere
"""
    (tmp_path / "mine.py").write_text(GOOD + more)
    assert backfill("simulate", "tiny.csv", "--cpus", "4", "--policy", "mine.py:mine", "-q").code == 0


def test_an_exception_in_plain_python_has_its_place(backfill, tmp_path):
    text = GOOD.replace('"mine"', '"mine", compiled=False').replace("    while", "    {}[job]\n    while")
    (tmp_path / "mine.py").write_text(text)
    done = backfill("simulate", "tiny.csv", "--cpus", "4", "--policy", "mine.py", "-q")
    assert (done.code, done.complaint) == (1, "mine.py:11: policy mine: KeyError: 0")


def test_a_missing_file_is_a_usage_error(backfill):
    done = backfill("simulate", "tiny.csv", "--cpus", "4", "--policy", "mine.py:mine")
    assert (done.code, done.complaint) == (2, "mine.py: cannot be read: No such file or directory")


def test_a_file_of_several_policies_wants_a_name(backfill):
    done = backfill("simulate", "tiny.csv", "--cpus", "4", "--policy", str(FILES / "mine.py"))
    assert done.code == 1
    assert "has 3 policies (mine, plain, rude); expected" in done.complaint
    done = backfill("simulate", "tiny.csv", "--cpus", "4", "--policy", f"{FILES / 'mine.py'}:forgotten")
    assert done.complaint.endswith("mine.py:58: forgotten is a plain function; expected @policy('forgotten') above it")


def test_an_edit_is_seen_in_the_file_and_in_what_it_imports(backfill, processes, tmp_path):
    (tmp_path / "helpers.py").write_text(
        "from backfill.verbs import kernel\n\n@kernel()\ndef least(state):\n    return 1\n"
    )
    (tmp_path / "mine.py").write_text(
        GOOD.replace("import policy\n", "import policy\nfrom helpers import least\n").replace(
            "    job = first", "    if state.queue.waiting < least(state):\n        return\n    job = first", 1
        )
    )

    def first_start() -> float:
        words = ["simulate", "tiny.csv", "--cpus", "9", "--policy", "mine.py", "--json", "-q"]
        done = processes.run(words, tmp_path, os.environ)
        assert done.stderr == ""
        return json.loads(done.stdout)["metrics"]["max_wait_s"]

    backfill("policies")  # writes tiny.csv
    assert first_start() == 0
    # Python itself sees no edit within a second that leaves the size as it is.
    (tmp_path / "helpers.py").write_text((tmp_path / "helpers.py").read_text().replace("return 1", "return  2"))
    assert first_start() == 1  # a waits for b


def test_a_file_that_goes_to_another_folder_leaves_us_where_we_are(backfill, tmp_path):
    (tmp_path / "mine.py").write_text("import os\nos.chdir('/')\n" + GOOD)
    done = backfill("simulate", "tiny.csv", "--cpus", "4", "--policy", "mine.py", "--schedule", "out.csv")
    assert (done.code, (tmp_path / "out.csv").exists()) == (0, True)


LAST = """    rewind(state, 0)
    job = last = following(state, 0)
    while job >= 0:
        last, job = job, following(state, 0)
    return last
"""


def test_files_of_one_name_that_different_processes_compiled_stay_apart(backfill, processes, tmp_path):
    backfill("policies")  # writes tiny.csv
    last = GOOD.replace("    return head(state)\n", LAST).replace("import HEAD,", "import HEAD, following, rewind,")
    for folder, text in (("a", GOOD), ("b", last)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(text.replace('("mine")', f'("{folder}")'))

    def mean_waits(*policies: str) -> list[float]:
        given = [word for policy in ("fcfs", *policies) for word in ("--policy", policy)]
        words = ["compare", "tiny.csv", "--cpus", "4", *given, "--json", "-q"]
        done = processes.run(words, tmp_path, os.environ)
        assert done.stderr == ""
        return [each["metrics"]["mean_wait_s"] for each in json.loads(done.stdout)["results"]][1:]

    alone = mean_waits("a/mine.py") + mean_waits("b/mine.py")
    assert alone[0] != alone[1]
    assert mean_waits("a/mine.py", "b/mine.py") == alone
