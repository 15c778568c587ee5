"""The page about an HTCondor pool under a policy of the queue says what a real one does."""

import os
import shlex
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from backfill.pools.htcondor_setup import htcondor_setup
from tests.docs.examples import ON_HTCONDOR, run_page
from tests.real import htcondor

pytestmark = [
    pytest.mark.htcondor,
    pytest.mark.skipif(htcondor.missing() != "", reason=f"a real HTCondor {htcondor.missing()}"),
    pytest.mark.skipif(find_spec("htcondor2") is None, reason="needs the extra htcondor"),
]
MACHINES, CPUS = [f"n{i}" for i in range(1, 5)], 4
TOOL = """#!/bin/sh
exec {} "$@"
"""


def test_the_page_about_an_htcondor_under_my_policy(tmp_path, monkeypatch):
    home = tmp_path / ".queue"
    extra = "".join(htcondor_setup(home).values())
    with (
        TemporaryDirectory(prefix="htcondor-", dir="/tmp") as folder,
        htcondor.running(Path(folder), MACHINES, CPUS, extra) as pool,
    ):
        pool.token("nobody")
        tools = tmp_path / "tools"
        tools.mkdir()
        for name in ("condor_submit", "condor_q", "condor_hold", "condor_release", "condor_rm", "condor_vacate_job"):
            (tools / name).write_text(TOOL.format(shlex.join(pool.command(name))))
            (tools / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("CONDOR_CONFIG", str(pool.folder / "condor_config"))
        for ran in run_page(ON_HTCONDOR.read_text(encoding="utf-8"), tmp_path):
            assert ran.matches, f"$ {ran.command}\n{ran.printed}--- the page says\n{ran.expected}"
