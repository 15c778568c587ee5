"""Make a release: check, build, try, tag. Nothing leaves this machine: `make upload` does that.

The version is that of pyproject.toml. CHANGELOG.md must begin with its heading, with a date: `## 0.1.0 (2027-01-31)`.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
HEADING = re.compile(r"^## (\S+) \((.*)\)$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def problems(version: str, changelog: str, changed: str, tags: str) -> list[str]:
    """Why this cannot be released; empty where it can.

    changed: what `git status --porcelain` prints. tags: what `git tag` prints.
    """
    found = []
    if changed.strip():
        found.append(f"files are not committed: {', '.join(line[3:] for line in changed.splitlines())}")
    heading = HEADING.search(changelog)
    if heading is None or heading[1] != version:
        stands = heading[0] if heading else "without a heading"
        found.append(f"CHANGELOG.md begins {stands}; expected ## {version} (YYYY-MM-DD), the version in pyproject.toml")
    elif not DATE.fullmatch(heading[2]):
        found.append(f"CHANGELOG.md says {version} ({heading[2]}); expected a date, YYYY-MM-DD")
    if f"v{version}" in tags.split():
        found.append(f"v{version} is already tagged; expected a new version in pyproject.toml")
    return found


def run(*command: str | Path, folder: Path = ROOT, **more: str) -> str:
    """Return what a command prints; exit if it fails. more: variables of its environment."""
    print("$", *command, flush=True)
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more
    done = subprocess.run([str(word) for word in command], cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{done.stdout}release: {command[0]} failed with exit code {done.returncode}; nothing is tagged")
    return done.stdout


def try_it(package: Path, version: str) -> None:
    """Install a package in a new environment, from the registry what it needs, and run its demo in an empty folder."""
    with tempfile.TemporaryDirectory() as place:
        venv.create(Path(place) / "venv", with_pip=True)
        programs = Path(place) / "venv" / ("Scripts" if sys.platform == "win32" else "bin")
        empty = Path(place) / "empty"
        empty.mkdir()
        run(programs / "python", "-m", "pip", "install", "--quiet", package, folder=empty)
        printed = run(programs / "backfill", "--version", folder=empty).strip()
        if printed != f"backfill {version}":
            sys.exit(f"release: {package.name} says {printed!r}; expected 'backfill {version}'; nothing is tagged")
        kept = Path(place) / "kept"
        print(run(programs / "backfill", "demo", folder=empty, BACKFILL_CACHE_DIR=str(kept)))
        compiled = [path.name for path in kept.rglob("*.nbc")]
        if compiled and not package.name.endswith(("-any.whl", ".tar.gz")):
            sys.exit(f"release: {package.name} lacks compiled code, such as {compiled[0]}; nothing is tagged")


def main() -> None:
    """All steps, in order."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if found := problems(version, changelog, run("git", "status", "--porcelain"), run("git", "tag")):
        sys.exit("\n".join(f"release: {problem}" for problem in found))
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build")
    run(sys.executable, "-m", "build", "--wheel", BACKFILL_COMPILED="1")
    packages = sorted(DIST.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *packages)
    for package in packages:
        try_it(package, version)
    run("git", "tag", "--annotate", f"v{version}", "--message", f"backfill {version}")
    print(f"tagged v{version}; next: git push origin v{version} && make upload")


if __name__ == "__main__":
    main()
