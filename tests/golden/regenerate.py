"""Write the golden schedules anew, from the slow twins: `python -m tests.golden.regenerate`. Review the difference."""

import csv
from dataclasses import replace
from pathlib import Path

from backfill.model.platform import Platform
from backfill.model.workload import Workload
from backfill.traces.read import read
from backfill.workloads import generate
from tests.reference import world
from tests.reference.workloads import from_model

FOLDER = Path(__file__).parent
POLICIES = (
    "fcfs", "easy", "easy-sjbf", "easy-wfp3", "conservative", "multi-queue",
    "gang-matrix:mpl=2", "gang-matrix-backfill:mpl=2,switch=0",
)  # fmt: skip
VARIANTS = [(p, t) for p in POLICIES for t in ("batch", "step")]


def cases() -> dict[str, tuple[Workload, Platform]]:
    """Small workloads that belong to the project: an excerpt of the bundled log, and generated jobs."""
    lublin = generate("lublin?jobs=250&cpus=64&seed=3&load=1.2&estimate_factor=4")
    return {
        "eagle": (
            replace(read("sample:eagle"), platform=None).head(250).at_load(20),
            Platform.pool(1_500),
        ),  # larger jobs are rejected
        "lublin": (lublin, Platform.pool(64)),
    }


def main() -> None:
    for name, (workload, platform) in cases().items():
        jobs, machine = from_model(workload, platform)
        columns = {f"{p} {t}": world.run(jobs, machine, world.POLICIES[p], ties=t) for p, t in VARIANTS}
        with (FOLDER / f"{name}.csv").open("w", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["job", *columns])
            for row, job in enumerate(workload.jobs.job.tolist()):
                out.writerow([job, *("" if rows[row].start is None else rows[row].start for rows in columns.values())])


if __name__ == "__main__":
    main()
