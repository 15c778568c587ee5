"""The accounting of a hundred jobs of a real Slurm, read as text and as JSON."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from backfill.model.units import SECOND
from backfill.traces.formats import Rules, import_log
from backfill.traces.inventory import read_platform
from tests.real import slurm

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.skipif(slurm.missing() != "", reason=f"a real Slurm {slurm.missing()}"),
]
COLUMNS = (
    "JobID,User,Account,Partition,QOS,Submit,Eligible,Start,End,Elapsed,Suspended,State,NNodes,NCPUS,ReqMem,ReqTRES,"
    "AllocTRES,Timelimit,NodeList,Constraints,SubmitLine,JobName"
)


@pytest.fixture(scope="module")
def cluster():
    # The database runs as a user of its own, who may not look into folders of pytest.
    with TemporaryDirectory(prefix="slurm-") as folder, slurm.running(Path(folder)) as found:
        yield found


def test_what_the_importer_says_is_what_was_submitted(cluster):
    asked: dict[str, tuple[int, int, int]] = {}  # tasks, cpus of each, bytes of each
    for i in range(24):
        cpus, each = 1 + i % 4, 50 * (1 + i % 3)
        job = cluster.submit("-c", str(cpus), "-t", "5", f"--mem-per-cpu={each}", "-J", f"a|{i}", "--wrap", "sleep 1")
        asked[job] = (1, cpus, cpus * each * 2**20)
    wide = cluster.submit("-N", "2", "-n", "8", "--ntasks-per-node=4", "-t", "5", "--mem=100", "--wrap", "sleep 1")
    asked[wide] = (2, 4, 100 * 2**20)
    array = cluster.submit("-a", "1-10%5", "-t", "5", "--mem=100", "--wrap", "sleep 1")
    asked |= {f"{array}_{task}": (1, 1, 100 * 2**20) for task in range(1, 11)}
    before = cluster.submit("-t", "5", "--mem=100", "--wrap", "sleep 2")
    after = cluster.submit("-t", "5", "--mem=100", "-d", f"afterok:{before}", "--wrap", "sleep 1")
    wish = cluster.submit("-t", "5", "--mem=100", "-C", "[fast|x86]", "-L", "lic:2", "--wrap", "sleep 1")
    failed = cluster.submit("-t", "UNLIMITED", "--mem=100", "-p", "short", "-J", "x", "--wrap", "exit 3", "--time=30")
    never = cluster.submit("-t", "5", "--begin=now+3600", "--mem=100", "--wrap", "sleep 1")
    twice = cluster.submit("-t", "5", "--mem=100", "--requeue", "--wrap", "sleep 20")
    cluster.run("scancel", never)
    cluster.wait(["squeue", "-h", "-t", "R", "-j", twice], lambda found: found.strip() != "")
    cluster.run("scontrol", "requeue", twice)
    squeue = ["squeue", "-h", "-r", "-o", "%i"]
    cluster.wait(squeue, lambda found: {*found.split()} <= {twice}, 120)
    # slurmctld sends what it knows to the database now and then
    cluster.wait(
        ["sacct", "-a", "-X", "-n", "-P", "-s", "CD", "-S", "now-1hours", "-E", "now+1hours", "-o", "jobid"],
        lambda found: {*asked, before, after, wish} <= {*found.split()},
    )
    span = ("-a", "-D", "-S", "now-1hours", "-E", "now+1hours")
    (cluster.folder / "dump.psv").write_text(cluster.run("sacct", *span, "-P", "-o", COLUMNS, SLURM_TIME_FORMAT="%s"))
    (cluster.folder / "dump.json").write_text(cluster.run("sacct", *span, "--json"))
    nodes = cluster.run("scontrol", "show", "node", "--oneliner")
    (cluster.folder / "nodes.txt").write_text(nodes + cluster.run("scontrol", "show", "partition", "--oneliner"))

    platform = read_platform(cluster.folder / "nodes.txt")
    assert platform.nodes == tuple(f"n{i + 1}" for i in range(slurm.NODES))
    assert platform.capacity.tolist() == [[slurm.CPUS, slurm.MEMORY * 2**20]] * slurm.NODES
    assert [each.name for each in platform.partitions] == ["main", "short"]

    log = import_log("sacct", str(cluster.folder / "dump.psv"), Rules(machines=platform))
    told = import_log("slurm", str(cluster.folder / "dump.json"), Rules(machines=platform))
    assert "broken line" not in {**log.dropped, **told.dropped}
    row = {job: k for k, job in enumerate(log.jobs.job.tolist())}
    assert {*asked, before, after, wish, failed, never, twice} == row.keys()
    assert set(told.jobs.job.tolist()) == row.keys()
    for job, (tasks, cpus, memory) in asked.items():
        held = (int(log.jobs.tasks[row[job]]), *log.jobs.demand[row[job]].tolist())
        assert held == (tasks, cpus, memory), job
        assert SECOND <= log.jobs.runtime[row[job]] <= 60 * SECOND
    assert log.jobs.after[row[after]].tolist() == [row[before]]
    assert (log.jobs.constraint[row[wish]], log.licences_of(row[wish])) == ("fast|x86", ["lic:2"])
    assert (log.jobs.status[row[failed]], log.jobs.partition[row[failed]]) == ("failed", "short")
    assert (log.jobs.status[row[never]], int(log.jobs.runtime[row[never]])) == ("cancelled", 0)
    assert (log.jobs.waited[[row[job] for job in asked]] >= 0).all()
