"""Control groups: on the kernel's own tree where this machine allows it, else on one of plain files."""

import contextlib
import os
import time
from pathlib import Path

import pytest

from backfill.pools.local import groups
from backfill.system import processes

REAL = pytest.mark.skipif(groups.place() is None, reason="this process may make no control group")


@REAL
def test_what_left_its_session_and_its_environment_ends_with_its_group(live):
    """A process that no mark and no parent leads to, after its supervisor and keeper were killed."""
    hidden = (
        "setsid env -i sh -c 'echo $$ > hidden; exec sleep 600' & while [ ! -e hidden ]; do sleep 0.01; done; sleep 600"
    )
    number = live.submit("-t", 1, "--wrap", hidden)
    live.until(lambda: (live.folder / "hidden").exists() and live.job(number)["state"] == "RUNNING")
    pid = int((live.folder / "hidden").read_text())
    live.kill(*live.keepers())
    live.run("cancel", number)
    live.run("wait", number, check=None)
    live.until(lambda: not processes.begun(pid) or processes.stands_still(pid) or not os.path.exists(f"/proc/{pid}"))
    assert not os.path.exists(f"/proc/{pid}/exe") or not os.readlink(f"/proc/{pid}/exe").endswith("sleep")


@REAL
@pytest.mark.parametrize("supervised", [True, False])
def test_what_a_job_puts_into_a_group_of_its_own_ends_with_it(live, supervised):
    """It has left its session and its environment, and the group of the attempt for one inside that."""
    hidden = (
        "setsid env -i sh -c 'echo $$ > hidden; exec sleep 600' & while [ ! -s hidden ]; do sleep 0.01; done; "
        f"g={groups.place()[0]}/$(basename $(grep 0:: /proc/self/cgroup)); echo $g > group; mkdir -p $g/in/deep; "
        "cat hidden > $g/in/deep/cgroup.procs; touch moved; while [ ! -e go ]; do sleep 0.05; done"
    )
    number = live.submit("-t", 1, "--wrap", hidden)
    live.until(lambda: (live.folder / "moved").exists())
    pid, group = int((live.folder / "hidden").read_text()), Path((live.folder / "group").read_text().strip())
    assert groups.members(str(group))[0] == pid
    assert pid in groups.members(str(group / "in"))
    if not supervised:
        live.kill(*live.keepers())
    (live.folder / "go").touch()
    live.run("wait", number, check=None)
    live.until(lambda: processes.state(pid) in (b"", b"Z"))
    live.until(lambda: not group.exists())


@REAL
def test_a_group_ends_and_is_removed():
    made = groups.make("/somewhere", f"1.{os.getpid()}", 0)
    assert made is not None
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    assert groups.enter(made[0], pid)
    assert groups.members(made[0]) == [pid]
    groups.end(made[0])
    assert os.waitpid(pid, 0)[1] == 9
    assert not os.path.exists(made[0])


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A tree in which this process is at the root, and may limit memory."""
    root = tmp_path / "cgroup"
    root.mkdir()
    (root / "cgroup.procs").touch()
    (root / "cgroup.subtree_control").write_text("cpu memory\n")
    monkeypatch.setattr(groups, "_own", lambda: "/")
    monkeypatch.setenv(groups.FAKE, str(root))
    return root


def test_the_nearest_group_with_memory_limits_is_taken(fake, monkeypatch):
    inner = fake / "user" / "app"
    inner.mkdir(parents=True)
    monkeypatch.setattr(groups, "_own", lambda: "/user/app")
    for folder in (inner, inner.parent):
        (folder / "cgroup.procs").touch()
        (folder / "cgroup.subtree_control").write_text("cpu\n")
    assert groups.place() == (str(fake), True)
    (inner.parent / "cgroup.subtree_control").write_text("memory\n")
    assert groups.place() == (str(inner.parent), True)
    (fake / "cgroup.subtree_control").write_text("\n")
    (inner.parent / "cgroup.subtree_control").write_text("\n")
    assert groups.place() == (str(inner), False)
    monkeypatch.setenv(groups.FAKE, str(fake / "missing"))
    assert groups.place() is None


def test_limits_are_written_and_a_kill_by_the_kernel_is_noticed(fake):
    folder, by_kernel = groups.make("/home/q", "7.1", 100 << 20)
    assert by_kernel
    written = {
        name: (fake / os.path.basename(folder) / name).read_text() for name in ("memory.max", "memory.oom.group")
    }
    assert written == {"memory.max": str(100 << 20), "memory.oom.group": "1"}
    assert not groups.was_out_of_memory(folder)
    (fake / os.path.basename(folder) / "memory.events").write_text("low 0\noom 1\noom_kill 1\n")
    assert groups.was_out_of_memory(folder)
    assert groups.used(folder) == (0, 0)


def test_a_job_that_the_kernel_ends_is_out_of_memory(live, fake, monkeypatch):
    """With a tree of plain files: the test plays the kernel."""
    own = (Path("/proc/self/cgroup").read_text().rpartition("0::")[2].split() or ["/"])[0].lstrip("/")
    live.env[groups.FAKE] = str(fake)
    place = fake / own
    place.mkdir(parents=True, exist_ok=True)
    (place / "cgroup.procs").touch()
    (place / "cgroup.subtree_control").write_text("memory\n")
    number = live.submit("--mem", "100M", "--", "sleep", 600)
    live.until(lambda: live.job(number)["state"] == "RUNNING")
    spawned = next(data for _, kind, data in live.job(number)["events"] if kind == "spawned")
    assert spawned["memory_by"] == "kernel"
    (group,) = place.glob(f"backfill-*-{number}.1")
    assert (group / "memory.max").read_text() == str(100 << 20)
    assert (group / "cgroup.procs").read_text() == str(spawned["pid"])
    live.until(lambda: Path(f"/proc/{spawned['pid']}/comm").read_text() == "sleep\n")
    (group / "memory.peak").write_text(str(99 << 20))
    (group / "memory.events").write_text("oom_kill 1\n")
    with contextlib.suppress(ProcessLookupError):  # the supervisor may have read it and ended the job before
        os.killpg(spawned["pid"], 9)
    live.run("wait", number, check=None)
    job = live.job(number)
    assert (job["state"], job["maxrss"]) == ("OUT_OF_MEMORY", 99 << 20)
    assert "enforced by the kernel" in live.run("doctor", check=None).stdout
