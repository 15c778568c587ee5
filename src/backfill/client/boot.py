"""Start a queue after a reboot: by a systemd user unit, or by a line of crontab if there is no systemd."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from backfill.client.calling import FAILED, Problem, Queue
from backfill.system.home import default_home, python_path, user_name

PATIENCE_S = 20.0  # seconds for systemctl and other programs
PASSED_ON = ("PATH", "LANG", "BACKFILL_CACHE_DIR", "XDG_CACHE_HOME")  # variables that the daemon gets
NEITHER = "this machine has neither a systemd manager for your user nor crontab"
LINGER = "loginctl enable-linger"
UNIT = """\
[Unit]
Description=backfill queue in {home}

[Service]
ExecStart={command}
WorkingDirectory=/
{environment}
StandardOutput=append:{log}
StandardError=append:{log}
Restart=on-failure
# Another daemon, which a client started, serves the queue already.
SuccessExitStatus=75
# Jobs go on when the daemon is stopped or restarted, and when one of them takes too much memory.
KillMode=process
OOMPolicy=continue
Delegate=yes
TasksMax=infinity

[Install]
WantedBy=default.target
"""


def install(folder: str) -> list[str]:
    """Have the daemon of a queue started with the machine; return what was done, in lines. Raises Problem."""
    if "\n" in folder:
        raise Problem(f"{folder!r}: expected a folder without line breaks in its name", FAILED)
    Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    if _has_manager():
        return _install_unit(folder)
    if shutil.which("crontab"):
        _write_crontab([*_crontab(but=folder), _crontab_line(folder)])
        return [f"crontab starts the queue of {folder} at each boot, if cron runs", f"now: {_start(folder)}"]
    raise Problem(f"{NEITHER}; the queue comes back with its next command", FAILED)


def uninstall(folder: str) -> list[str]:
    """Undo `install`; a running daemon keeps running. Raises Problem."""
    path, done = _unit_path(folder), []
    if path.exists():
        if _has_manager():
            _systemctl("disable", path.name)
        path.unlink()
        if _has_manager():
            _systemctl("daemon-reload")
        done.append(f"removed {path}")
    if shutil.which("crontab") and _in_crontab(folder):
        _write_crontab(_crontab(but=folder))
        done.append("removed the line of crontab")
    if not done:
        raise Problem(f"the queue of {folder} is not installed", FAILED)
    return [*done, "a running daemon continues; next: backfill serve --stop"]


def survives(folder: str) -> tuple[bool, str, str]:
    """Return whether a queue comes back after a reboot, how, and what to do about it."""
    path, hint = _unit_path(folder), "backfill serve --install"
    if path.exists() and _has_manager():
        if _run("systemctl", "--user", "is-enabled", path.name).stdout.strip() != "enabled":
            return False, f"{path} is not enabled: the queue comes back with its next command", hint
        if not _lingers():
            return False, f"unit {path.name} starts the queue at your next login, not at boot", LINGER
        return True, f"unit {path.name} starts the queue at boot", ""
    if shutil.which("crontab") and _in_crontab(folder):
        return True, "crontab starts the queue at boot, if cron runs", ""
    if not (_has_manager() or shutil.which("crontab")):
        return False, f"the queue comes back with its next command: {NEITHER}", ""
    return False, "after a reboot the queue comes back with its next command only", hint


def _install_unit(folder: str) -> list[str]:
    path = _unit_path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(path.name + ".tmp")
    half.write_text(_unit(folder), encoding="utf-8")
    half.replace(path)
    _systemctl("daemon-reload")
    _systemctl("enable", path.name)
    done = [f"wrote and enabled {path}"]
    if _pid(folder):
        done.append(f"now: process {_pid(folder)} serves the queue; the unit does so after the next boot")
    else:
        _systemctl("start", path.name)
        done.append(f"now: unit {path.name} serves the queue")
    if not _lingers():
        done.append(f"next: {LINGER}   (else the queue and its jobs end when you log out, and start when you log in)")
    return done


def _unit(folder: str) -> str:
    """Return the text of the unit."""
    command = [sys.executable, "-P", "-m", "backfill.daemon.daemon"]
    return UNIT.format(
        home=folder.replace("%", "%%"),
        command=" ".join(_quoted(word).replace("$", "$$") for word in command),
        environment="\n".join(f"Environment={_quoted(f'{name}={value}')}" for name, value in _environment(folder)),
        log=os.path.join(folder, "daemon.log").replace("%", "%%"),
    )


def _quoted(word: str) -> str:
    """Quote a word for systemd."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _crontab_line(folder: str) -> str:
    """Return the line of crontab, which ends with the mark by which it is found again."""
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in _environment(folder))
    command = f"{shlex.quote(sys.executable)} -P -m backfill.daemon.daemon"
    log = shlex.quote(os.path.join(folder, "daemon.log"))
    line = f"cd / && {settings} exec {command} >> {log} 2>&1 {_mark(folder)}"
    return "@reboot " + line.replace("%", "\\%")  # in crontab an unescaped % ends the line


def _environment(folder: str) -> list[tuple[str, str]]:
    passed = [(name, os.environ[name]) for name in PASSED_ON if os.environ.get(name)]
    variables = [("BACKFILL_HOME", folder), ("PYTHONPATH", python_path()), *passed]
    return [(name, value) for name, value in variables if "\n" not in value]


def _mark(folder: str) -> str:
    return f"# backfill queue in {folder}"


def _unit_path(folder: str) -> Path:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    other = "" if folder == default_home() else f"-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]}"
    return Path(config, "systemd", "user", f"backfill{other}.service")


def _pid(folder: str) -> int:
    """Return the process of the daemon that serves a queue; 0 if there is none."""
    try:
        queue = Queue(folder, start=False)
    except Problem:
        return 0
    try:
        return int(queue.ask("ping", 5.0)["pid"])
    except (OSError, Problem):
        return 0
    finally:
        queue.close()


def _start(folder: str) -> str:
    """Start the daemon as a client does, and return what was done."""
    Queue(folder).close()
    return f"process {_pid(folder)} serves the queue"


def _has_manager() -> bool:
    """Return whether systemd has a manager for this user."""
    return bool(shutil.which("systemctl")) and _run("systemctl", "--user", "show-environment").returncode == 0


def _lingers() -> bool:
    """Return whether the manager of this user starts at boot, and stays when the user logs out."""
    if not shutil.which("loginctl"):
        return False
    answer = _run("loginctl", "show-user", user_name(os.getuid()), "--property=Linger")
    return answer.stdout.strip() == "Linger=yes" or Path("/var/lib/systemd/linger", user_name(os.getuid())).exists()


def _systemctl(*words: str) -> None:
    done = _run("systemctl", "--user", *words)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Problem(f"systemctl --user {' '.join(words)}: {why}", FAILED)


def _crontab(but: str = "") -> list[str]:
    """Return the lines of crontab, except that of the queue `but`."""
    done = _run("crontab", "-l")
    lines = done.stdout.splitlines() if done.returncode == 0 else []
    mark = _mark(but).replace("%", "\\%")
    return [line for line in lines if not (but and line.endswith(mark))]


def _in_crontab(folder: str) -> bool:
    return _crontab(but=folder) != _crontab()


def _write_crontab(lines: list[str]) -> None:
    done = _run("crontab", "-", text="".join(f"{line}\n" for line in lines))
    if done.returncode:
        raise Problem(f"crontab: {done.stderr.strip() or f'exit code {done.returncode}'}", FAILED)


def _run(*command: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program; a timeout counts as a failure."""
    runtime = f"/run/user/{os.getuid()}"
    env = {"XDG_RUNTIME_DIR": runtime, **os.environ} if os.path.isdir(runtime) else dict(os.environ)
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE_S, env=env)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))
