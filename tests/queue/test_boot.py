"""A queue that comes back after a reboot, with programs in the place of systemctl, loginctl and crontab."""

import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.patience import PATIENCE_S

SYSTEMCTL = """#!/bin/sh
echo "$*" >> {0}/calls
case "$2" in
  enable) touch {0}/enabled;;
  disable) rm -f {0}/enabled;;
  is-enabled) [ -e {0}/enabled ] && echo enabled || echo disabled;;
esac
"""
LOGINCTL = "#!/bin/sh\n[ -e {0}/lingers ] && echo Linger=yes || echo Linger=no\n"
CRONTAB = '#!/bin/sh\nif [ "$1" = -l ]; then cat {0}/table 2> /dev/null; else cat > {0}/table; fi\n'


class Machine:
    """Stand-ins for programs of the machine, which write down how they are called."""

    def __init__(self, live, folder, **programs):
        self.live, self.folder = live, folder
        (folder / "bin").mkdir()
        for name, text in programs.items():
            (folder / "bin" / name).write_text(text.format(shlex.quote(str(folder))))
            (folder / "bin" / name).chmod(0o700)
        for name in ("sh", "cat", "touch", "rm"):
            (folder / "bin" / name).symlink_to(f"/bin/{name}")
        live.env |= {"PATH": str(folder / "bin"), "XDG_CONFIG_HOME": str(folder / "config")}

    def serve(self, *words, check=0):
        return self.live.run("serve", *words, check=check)

    def doctor(self):
        lines = self.live.run("doctor", check=None).stdout.splitlines()
        (place,) = (place for place, line in enumerate(lines) if line[6:15].strip() == "reboot")
        return lines[place].split(maxsplit=2)[0], " ".join(line.strip() for line in lines[place : place + 2])

    def units(self):
        return [*(self.folder / "config").rglob("*.service")]


@pytest.fixture
def machine(live, tmp_path_factory):
    return lambda **programs: Machine(live, tmp_path_factory.mktemp("machine"), **programs)


def test_a_unit_of_systemd_starts_the_queue_and_no_stop_of_it_ends_jobs(live, machine):
    there = machine(systemctl=SYSTEMCTL, loginctl=LOGINCTL)
    assert there.doctor() == ("warn", "warn  reboot    after a reboot the queue comes back with its next command only "
                                      "backfill serve --install")  # fmt: skip
    done = there.serve("--install").stdout
    (unit,) = there.units()
    assert done.startswith(f"wrote and enabled {unit}\nnow: unit {unit.name} serves the queue\nnext: loginctl enable-l")
    calls = (there.folder / "calls").read_text().splitlines()
    assert [call for call in calls if "show-env" not in call and "is-enabled" not in call] == [
        "--user daemon-reload", f"--user enable {unit.name}", f"--user start {unit.name}"
    ]  # fmt: skip
    settings = dict(line.split("=", 1) for line in unit.read_text().splitlines() if "=" in line)
    assert (settings["KillMode"], settings["Restart"], settings["SuccessExitStatus"]) == ("process", "on-failure", "75")
    assert settings["ExecStart"] == f'"{sys.executable}" "-P" "-m" "backfill.daemon.daemon"'
    assert f'Environment="BACKFILL_HOME={live.folder}"' in unit.read_text().splitlines()
    assert there.doctor()[1].endswith("at your next login, not at boot loginctl enable-linger")
    (there.folder / "lingers").touch()
    assert there.doctor()[0] == "ok"
    (there.folder / "enabled").unlink()
    assert "is not enabled" in there.doctor()[1]
    there.serve("--uninstall")
    assert not there.units()
    assert there.doctor()[0] == "warn"
    assert "is not installed" in there.serve("--uninstall", check=1).stderr


def test_a_daemon_that_serves_goes_on_when_the_unit_is_installed(live, machine):
    there = machine(systemctl=SYSTEMCTL, loginctl=LOGINCTL)
    live.submit("-H", "--", "true")
    pid = live.daemon()
    assert f"now: process {pid} serves the queue" in there.serve("--install").stdout
    assert "start" not in (there.folder / "calls").read_text()
    there.serve("--uninstall")
    assert live.daemon() == pid


def test_the_command_of_the_unit_serves_the_queue(live, machine):
    """The daemon as systemd would start it: with the unit's environment alone, in its folder."""
    there = machine(systemctl=SYSTEMCTL, loginctl=LOGINCTL)
    there.serve("--install")
    text = there.units()[0].read_text()
    env = dict(shlex.split(line.removeprefix("Environment="))[0].split("=", 1) for line in text.splitlines()
               if line.startswith("Environment="))  # fmt: skip
    (command,) = (line.removeprefix("ExecStart=") for line in text.splitlines() if line.startswith("ExecStart="))
    more = {name: live.env[name] for name in ("NUMBA_DISABLE_JIT", "BACKFILL_REGISTRY")}
    made = subprocess.Popen(shlex.split(command), env=env | more, cwd="/")
    live.until((live.folder / "sock").exists)
    assert live.daemon() == made.pid
    number = live.submit("--", "/bin/sleep", "600")
    live.until(lambda: live.job(number)["state"] == "RUNNING")
    again = subprocess.run(shlex.split(command), env=env | more, cwd="/", capture_output=True)
    assert again.returncode == 75
    made.terminate()  # a stop of the unit, with KillMode=process
    assert made.wait(PATIENCE_S) == 0
    assert live.job(number)["state"] == "RUNNING"
    live.run("cancel", number)


def test_crontab_starts_the_queue_where_there_is_no_systemd(live, machine):
    there = machine(crontab=CRONTAB)
    (there.folder / "table").write_text("5 4 * * * backup\n")
    there.serve("--install")
    there.serve("--install")  # one line, however often
    other, line = (there.folder / "table").read_text().splitlines()
    assert (other, line.split(" ", 1)[0]) == ("5 4 * * * backup", "@reboot")
    assert there.doctor()[0] == "ok"
    live.run("serve", "--stop")
    command = line.removeprefix("@reboot ").replace("\\%", "%")
    made = subprocess.Popen(["/bin/sh", "-c", command], env={"NUMBA_DISABLE_JIT": "1"})
    live.until((live.folder / "sock").exists)
    assert live.daemon() == made.pid
    with ThreadPoolExecutor(1) as thread:  # a zombie would not be gone
        ended = thread.submit(made.wait, PATIENCE_S)
        there.serve("--stop")
        assert ended.result() == 0
    there.serve("--uninstall")
    assert (there.folder / "table").read_text() == "5 4 * * * backup\n"


def test_without_both_it_is_said(live, machine):
    there = machine()
    refused = there.serve("--install", check=1).stderr
    assert refused.startswith("backfill: this machine has neither a systemd manager for your user nor crontab")
    assert there.doctor()[0] == "warn"
    broken = machine(systemctl="#!/bin/sh\n[ $2 != enable ] || (echo Access denied >&2; exit 1)\n")
    assert ": Access denied" in broken.serve("--install", check=1).stderr


@pytest.mark.parametrize("name", ["a b", 'we"ird', "100%", "do$llar", "back\\slash"])
def test_any_name_of_a_folder_is_quoted(live, machine, tmp_path_factory, name):
    there = machine(systemctl=SYSTEMCTL, loginctl=LOGINCTL, crontab=CRONTAB)
    live.env["BACKFILL_HOME"] = home = str(tmp_path_factory.mktemp("homes") / name)
    there.serve("--install")
    text = there.units()[0].read_text()
    quoted = home.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    assert f'Environment="BACKFILL_HOME={quoted}"\n' in text
    assert f"Description=backfill queue in {home.replace('%', '%%')}\n" in text
    there.serve("--uninstall")
    (there.folder / "bin" / "systemctl").unlink()
    there.serve("--install")
    live.run("serve", "--stop")
    line = (there.folder / "table").read_text()
    assert line.endswith(f"# backfill queue in {home}\n".replace("%", "\\%"))
    there.serve("--uninstall")
    assert (there.folder / "table").read_text() == ""
