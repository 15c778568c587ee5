"""The pool of the page that shows how to write one."""

import re
from pathlib import Path

import pytest

from tests.queue.conftest import live  # noqa: F401

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "pools.md").read_text()
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
CLUSTER = '[[node]]\nname = "a"\ncpus = 2\n[[node]]\nname = "b"\ncpus = 4\n'


@pytest.fixture
def shells(live):  # noqa: F811
    (live.folder / "cluster.toml").write_text(CLUSTER)
    (live.folder / "shells.py").write_text(EXAMPLE)
    (live.folder / "config.toml").write_text('policy = "easy"\nplatform = "cluster.toml"\npool = "shells.py:Shells"\n')
    return live


def test_the_example_is_short():
    assert len([line for line in EXAMPLE.splitlines() if line.strip()]) <= 60


def test_a_pool_of_a_users_own_file_runs_jobs(shells):
    where = shells.folder / "where"
    some = [shells.submit("-t", "1", "-c", cpus, "--wrap", f"echo $NODE >> {where}") for cpus in (4, 2, 3)]
    fails = shells.submit("-t", "1", "--wrap", "exit 3")
    for number in some:
        shells.run("wait", number)
    shells.run("wait", fails, check=3)
    assert where.read_text().count("b") >= 2
    nowhere = shells.submit("-t", "1", "--", "/nowhere/to/be/found")
    shells.until(lambda: shells.job(nowhere)["reason"] == "LaunchFailed")
    long = shells.submit("-t", "10", "-c", "4", "--", "sleep", "1000")
    shells.until(lambda: shells.job(long)["state"] == "RUNNING")
    shells.run("cancel", long)
    shells.until(lambda: shells.job(long)["state"] == "CANCELLED")
    lost = shells.submit("-t", "10", "-c", "4", "--", "sleep", "1000")
    shells.until(lambda: shells.job(lost)["state"] == "RUNNING")
    shells.kill(shells.daemon())
    shells.until(lambda: shells.job(lost)["state"] == "NODE_FAIL")


def test_what_a_pool_does_wrong_is_in_the_log_and_ends_nothing(shells):
    wrong = EXAMPLE.replace(
        "    def start(self, some):\n", "    def start(self, some):\n        raise KeyError('mine')\n", 1
    )
    wrong = wrong.replace("return Seen([", "return Seen(nodes=[NodeSeen('c', {'cpus': 1})], attempts=[", 1)
    (shells.folder / "shells.py").write_text(wrong.replace("import Seen,", "import NodeSeen, Seen,"))
    number = shells.submit("-t", "1", "--", "true")
    shells.until(lambda: shells.job(number)["state"] == "NODE_FAIL")  # nobody knows what has become of it
    log = (shells.folder / "daemon.log").read_text()
    assert "KeyError: 'mine'" in log
    assert "pool shells tells of node c, which the platform does not have" in log
    assert shells.request("queue")["policy"] == "easy"


@pytest.mark.parametrize(
    ("pool", "told"),
    [
        ("nosuch.py:Shells", "nosuch.py: FileNotFoundError"),
        ("shells.py:Nobody", "shells.py: there is no Nobody; expected FILE.py:NAME of a class"),
        ("shells.py", "pool is 'shells.py'; expected FILE.py:NAME of a class"),
    ],
)
def test_a_pool_that_cannot_be_loaded_is_told_in_one_line(shells, pool, told):
    (shells.folder / "config.toml").write_text(f'platform = "cluster.toml"\npool = "{pool}"\n')
    message = shells.run("queue", check=4).stderr
    assert told in message
    assert message.count("\n") == 1
