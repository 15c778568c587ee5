"""Queues that share a machine know of each other."""

import os
import re
import socket
import subprocess
import sys

import pytest

from backfill.daemon import neighbours
from backfill.daemon.config import Config
from backfill.model.units import numbers_text
from backfill.queue.words import Unreadable, parse_array
from tests.queue.conftest import Live

CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture
def registry(tmp_path, monkeypatch):
    name = f"test-{os.getpid()}-{tmp_path.name[:30]}"
    monkeypatch.setenv(neighbours.REGISTRY, name)
    return name


def test_a_queue_is_known_while_its_socket_is_open(registry):
    assert neighbours.queues() == []
    sock, hang_up = neighbours.announce("/a", [0, 1])
    other, _ = neighbours.announce("/b", [1, 2])
    assert [(one.uid, one.cpus) for one in sorted(neighbours.queues(), key=lambda one: one.cpus)] == [
        (os.getuid(), [0, 1]), (os.getuid(), [1, 2])
    ]  # fmt: skip
    for _ in range(3 * neighbours.MOST):  # who looks is let go of
        assert "on the same cpus 1" in neighbours.overlap("/a")
        hang_up()
        neighbours_accept(other)
    assert neighbours.overlap("/a", [0]) == ""
    assert neighbours.overlap("/c") == ""  # no daemon says what it takes
    other.close()
    assert (len(neighbours.queues()), neighbours.overlap("/a")) == (1, "")
    sock.close()
    assert neighbours.queues() == []


def neighbours_accept(sock):
    while True:
        try:
            sock.accept()[0].close()
        except BlockingIOError:
            return


def test_a_name_of_another_user_counts_only_if_that_user_listens(registry):
    with socket.socket(socket.AF_UNIX) as false:
        false.bind(f"\0{registry}/{os.getuid() + 1}/abc/1/1:0")
        false.listen()
        assert neighbours.queues() == []
    with socket.socket(socket.AF_UNIX) as broken:
        broken.bind(f"\0{registry}/nonsense")
        broken.listen()
        assert neighbours.queues() == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_the_queue_of_another_user_is_named_and_the_shares_are_the_same_for_both(registry):
    code = (
        "import os, sys, pwd; from backfill.daemon import neighbours; os.setuid(65534); "
        "sock, _ = neighbours.announce('/theirs', [*map(int, sys.argv[1:])]); print(flush=True); sys.stdin.read(); "
        "print(neighbours.overlap('/theirs'))"
    )
    mine, hang_up = neighbours.announce("/mine", CPUS)
    theirs = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, CPUS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    theirs.stdout.readline()
    told = neighbours.overlap("/mine")
    hang_up()
    to_them = theirs.communicate("")[0]
    mine.close()
    name = neighbours.user_name(65534)
    assert told.startswith(f"the queue of {name} also runs here, on the same cpus {numbers_text(CPUS)}; cpus = ")
    assert to_them.startswith("the queue of root also runs here")
    (here, there), (back, forth) = (re.findall(r'"([\d,-]+)"', text) for text in (told, to_them))
    assert (here, there) == (forth, back)


def test_cpus_may_be_given_by_their_numbers(tmp_path):
    (tmp_path / "config.toml").write_text(f'cpus = "{CPUS[-1]}"\n')
    config = Config(tmp_path)
    assert (config.cpu_ids, config.resources["cpus"], config.pinned) == ([CPUS[-1]], 1, True)
    for wrong in ("99999", "one"):
        (tmp_path / "config.toml").write_text(f'cpus = "{wrong}"\n')
        with pytest.raises(Unreadable, match=f"cpus is '{wrong}'; expected"):
            Config(tmp_path)


def test_submit_and_doctor_say_that_another_queue_takes_the_same_cpus(live, tmp_path_factory, registry):
    live.env[neighbours.REGISTRY] = registry
    assert live.run("submit", "-H", "--", "true").stderr == ""
    other = Live(tmp_path_factory.mktemp("other"))
    try:
        done = other.run("submit", "-H", "--", "true")
        assert done.stderr.startswith("backfill: another queue of yours also runs here, on the same cpus 0-3; cpus = ")
        assert other.run("submit", "--parsable", "-H", "--", "true").stderr == ""
        assert other.run("submit", "--quiet", "-H", "--", "true").stderr == ""
        told = live.run("doctor").stdout
        assert "warn  shared    another queue of yours also runs here, on the same cpus 0-3\n" in told
        live.kill(other.daemon())
        live.until(lambda: "no other queue runs on this machine" in live.run("doctor").stdout)
    finally:
        other.end()


def share_of(folder, cpus=(0, 1)):
    return neighbours.overlap(folder, [*cpus])


def test_several_queues_of_one_user_are_counted_and_have_shares_while_there_are_cpus(registry, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    some = [neighbours.announce(name, [0, 1]) for name in ("/a", "/b")]
    told = share_of("/c")
    assert told.startswith("2 other queues of yours also run here, on the same cpus 0-1; cpus = ")
    mine, *theirs = re.findall(r'"([\d,-]+)"', told)
    assert sorted(numbers_of([mine, *theirs])) == [0, 1, 2, 3]
    assert told.endswith(f'would be the share ("{theirs[0]}" and "{theirs[1]}" for 2 other queues of yours)')
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    assert share_of("/c") == (
        "2 other queues of yours also run here, on the same cpus 0-1; "
        "2 cpus are too few for 3 queues to have their own: stop those that are not needed"
    )
    for sock, _ in some:
        sock.close()


def numbers_of(texts):
    return [number for text in texts for number in parse_array(text)[0]]
