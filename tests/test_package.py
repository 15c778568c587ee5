"""What is released: the sdist alone gives a wheel, which runs from an empty folder on the core install."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import backfill
from tests.patience import PATIENCE_S

from .docs.examples import CORE, EXTRAS, OTHERS, ROOT

pytest.importorskip("build", reason="the tools of a release are not installed")
SOURCES = ROOT / "src"
ITSELF = ("PYTHONPATH", "NUMBA_DISABLE_JIT")  # of this process; what is installed finds its way alone


def run(*command: str | Path, folder: Path, **more: str) -> str:
    """Return what a command prints that succeeds in a folder."""
    clean = {name: value for name, value in os.environ.items() if name not in ITSELF}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=clean | more,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the sdist of this tree, and the wheel that was made of the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, folder=folder)
    return folder


def one(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """The programs of an environment with the wheel, and of what else is installed here what the core install has."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    run(programs / "python", "-c", "", folder=folder)
    place = run(programs / "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=folder)
    others = [path for path in sys.path if "site-packages" in path]
    (Path(place.strip()) / "others.pth").write_text("\n".join(others))  # whose own .pth files then count for nothing
    wheel = one(built, "*.whl")
    pip = [sys.executable, "-m", "pip", "--python", folder, "--disable-pip-version-check", "-q"]
    run(*pip, "install", "--no-deps", "--no-index", "--ignore-installed", wheel, folder=folder)
    return programs


def test_the_wheel_is_pure_python_and_holds_every_file_of_the_package_and_the_manual(built):
    wheel = one(built, "*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as file:
        names = {name for name in file.namelist() if ".dist-info/" not in name}
    ours = (path for path in (SOURCES / "backfill").rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    manual = f"backfill-{backfill.__version__}.data/data/share/man/man1"
    expected = {f"{manual}/{path.name}" for path in (ROOT / "man").iterdir()}
    assert names == {path.relative_to(SOURCES).as_posix() for path in ours} | expected


def test_the_sdist_holds_what_its_tests_need_and_no_more(built):
    with tarfile.open(one(built, "*.tar.gz")) as file:
        tops = {name.split("/")[1] for name in file.getnames()}
    assert {"src", "tests", "docs", "man", "pyproject.toml", "Makefile", "README.md", "LICENSE", "CHANGELOG.md"} <= tops
    assert not tops & {".venv", ".cache", "dist", ".git", ".ci"}


def test_it_runs_from_an_empty_folder_on_the_core_install(installed, tmp_path):
    core = {"PYTHONPATH": str(CORE), "BACKFILL_MISSING": " ".join([OTHERS, *EXTRAS.values()])}

    def printed(*words: str) -> str:
        return run(installed / "backfill", *words, folder=tmp_path, **core)

    where = run(installed / "python", "-c", "import backfill; print(backfill.__file__)", folder=tmp_path, **core)
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert (installed.parent / "share" / "man" / "man1" / "backfill-submit.1").exists()
    assert printed("--version") == f"backfill {backfill.__version__}\n"
    assert "conservative" in printed("policies")
    assert "easy" in printed("simulate", "model:lublin?jobs=200&cpus=64", "--policy", "easy", "--report", "one.html")
    printed("demo", "--out", ".")
    for page in ("one.html", "backfill-demo.html"):
        assert "</html>" in (tmp_path / page).read_text(encoding="utf-8")
