"""A Slurm of a test's own, and a queue that finds it."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.queue.conftest import Live
from tests.real import slurm


@pytest.fixture
def cluster():
    with TemporaryDirectory(prefix="slurm-") as folder, slurm.running(Path(folder), accounting=False) as found:
        yield found


@pytest.fixture
def live(cluster, tmp_path):
    found = Live(tmp_path)
    (tmp_path / "config.toml").unlink()
    found.env["SLURM_CONF"] = str(cluster.folder / "slurm.conf")
    yield found
    found.run("serve", "--stop", check=None)
