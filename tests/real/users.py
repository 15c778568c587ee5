"""Somebody without rights on a real Slurm, and the queue's submit filter there."""

import os
import pwd
import subprocess
import time

from tests.real import slurm

USER = "nobody"


class User:
    """Somebody without rights."""

    def __init__(self, cluster):
        self.env = os.environ | {"SLURM_CONF": str(cluster.folder / "slurm.conf")}

    def run(self, *words):
        who = pwd.getpwnam(USER)
        done = subprocess.run(
            words, env=self.env, cwd="/", user=who.pw_uid, group=who.pw_gid, extra_groups=[], capture_output=True,
            text=True, timeout=slurm.PATIENCE_S,
        )  # fmt: skip
        return done.stdout.strip() + done.stderr

    def submit(self, *words):
        told = self.run("sbatch", "--parsable", "-o", "/dev/null", "-t", "5", *words)
        assert told.isdecimal(), told
        return told


def install(cluster, live, *words):
    """Have slurmctld load the filter that the queue prints."""
    text, filter_file = (
        live.run("pool", "setup", "--print", "--part", "filter", *words).stdout,
        cluster.folder / "job_submit.lua",
    )
    while filter_file.exists() and int(time.time()) <= int(filter_file.stat().st_mtime):
        time.sleep(0.1)  # slurmctld loads a file again if the whole second of its change is another
    filter_file.write_text(text)
    conf = cluster.folder / "slurm.conf"
    kept = [line for line in conf.read_text().splitlines() if not line.startswith("SchedulerParameters")]
    conf.write_text("\n".join(kept) + "\n" + live.run("pool", "setup", "--print", "--part", "conf").stdout)
    cluster.run("scontrol", "reconfigure")
