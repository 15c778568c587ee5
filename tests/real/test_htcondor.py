"""The history of a hundred jobs of a real HTCondor, read as JSON and as text."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from backfill.model.units import SECOND
from backfill.traces.formats import Rules, import_log
from backfill.traces.inventory import read_platform
from tests.real import htcondor

pytestmark = [
    pytest.mark.long,
    pytest.mark.htcondor,
    pytest.mark.skipif(htcondor.missing() != "", reason=f"a real HTCondor {htcondor.missing()}"),
]
MIB = 2**20
MANY = """executable = /bin/sleep
arguments = 1
should_transfer_files = NO
request_cpus = 1 + ($(Process) % 3)
request_memory = 256
allowed_execute_duration = 600
accounting_group = phys
accounting_group_user = ann
priority = 3
queue 96
"""
WITH_LICENCE = """executable = /bin/sleep
arguments = 1
should_transfer_files = NO
concurrency_limits = lic:2
request_memory = 128
queue
"""
FAILS = "executable = /bin/false\nrequest_memory = 128\nshould_transfer_files = NO\nqueue\n"
HELD = "executable = /bin/sleep\narguments = 600\nrequest_memory = 128\nhold = True\nqueue\n"


@pytest.fixture(scope="module")
def pool():
    with TemporaryDirectory(prefix="htcondor-", dir="/tmp") as folder, htcondor.running(Path(folder)) as found:
        yield found


def test_what_the_importer_says_is_what_was_submitted(pool):
    for name, text in {"many": MANY, "licence": WITH_LICENCE, "fails": FAILS, "held": HELD}.items():
        pool.submit(name, text)  # clusters 1 to 4
    pool.run("condor_rm", "4.0")
    pool.wait(("condor_q", "-af", "ClusterId"), lambda found: found.strip() == "")
    (pool.folder / "jobs.json").write_text(pool.run("condor_history", "-json"))
    (pool.folder / "jobs.ads").write_text(pool.run("condor_history", "-long"))
    (pool.folder / "slots.json").write_text(pool.run("condor_status", "-json"))

    platform = read_platform(pool.folder / "slots.json")
    assert platform.capacity[:, :2].tolist() == [[htcondor.CPUS, htcondor.MEMORY * MIB]]

    rules = Rules(machines=platform)
    log, text = (import_log("htcondor", str(pool.folder / name), rules) for name in ("jobs.json", "jobs.ads"))
    jobs = log.jobs
    assert "broken line" not in {**log.dropped, **text.dropped}
    row = {job: k for k, job in enumerate(jobs.job.tolist())}
    assert row.keys() == {*(f"1.{i}" for i in range(96)), "2.0", "3.0", "4.0"}
    assert jobs.job.tolist() == text.jobs.job.tolist()
    assert all((jobs[name] == text.jobs[name]).all() for name in ("submit", "runtime", "walltime", "demand", "waited"))
    for i in range(96):
        job = row[f"1.{i}"]
        assert (int(jobs.tasks[job]), *jobs.demand[job, :2].tolist()) == (1, 1 + i % 3, 256 * MIB)
        assert (jobs.status[job], jobs.group[job], jobs.priority[job]) == ("completed", "phys", 3.0)
        assert SECOND <= jobs.runtime[job] <= 60 * SECOND
        assert (jobs.walltime[job], jobs.waited[job] >= 0) == (600 * SECOND, True)
    assert log.licences_of(row["2.0"]) == ["lic:2"]
    assert [jobs.status[row[job]] for job in ("2.0", "3.0", "4.0")] == ["completed", "failed", "cancelled"]
    assert jobs.runtime[row["4.0"]] == 0
