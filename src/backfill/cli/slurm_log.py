"""backfill verify --slurmctld-log: the decisions of the policy slurm beside those of a slurmctld, pass by pass."""

from dataclasses import replace

from backfill.cli import say
from backfill.cli.inputs import site_read
from backfill.cli.output import print_json


def judge_log(jobs: str, log: str, site: str, as_json: bool) -> None:
    """Print how often the model decided as the log says, given the log's state at each pass.

    jobs: what sacct printed, with SubmitLine. Raises InputError for a file that cannot be read.
    """
    from backfill.traces.slurm_requests import read_requests
    from backfill.traces.slurmctld_log import read_slurmctld_log
    from backfill.worlds.slurm_truth import agreement, priorities

    read, asked = read_slurmctld_log(log), read_requests(jobs)
    platform = site_read(site).platform
    asked, platform = asked.on(platform)
    assert platform.slurm is not None
    platform = replace(platform, slurm=asked.on_site(platform.slurm))
    for text in asked.notes:
        say.note(text)
    found, ranks = agreement(read, asked.workload, platform), priorities(read, asked.workload, platform)
    if as_json:
        print_json(
            {
                "schema": 1,
                "passes": len(read.passes),
                "skipped": found.skipped,
                **found.to_dict(),
                "priorities": ranks.to_dict(),
            }
        )
        return
    skipped = f"; {found.skipped:,} skipped: cut off, or with jobs that {jobs} lacks" if found.skipped else ""
    print(f"{log}: {len(read.passes):,} passes, re-synchronised at each{skipped}")
    for each in (ranks, found):
        for kind, total in each.total.items():
            print(f"  {kind}: {each.alike[kind]:,} of {total:,} alike")
    for text in (*ranks.differences, *found.differences):
        print(text)
    if (more := found.different + ranks.different - len(found.differences) - len(ranks.differences)) > 0:
        print(f"and {more:,} more differences")
