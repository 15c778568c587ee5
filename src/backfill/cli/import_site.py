"""backfill import slurm-site: what the dumps of a Slurm say, what is missing, and what then counts."""

import shlex

from backfill.cli import say
from backfill.cli.output import print_json


def import_site(folder: str, as_json: bool) -> None:
    """Read the dumps of a site; print what was found, what is missing, and what the policy slurm leaves out."""
    from backfill import __version__
    from backfill.core.policy import json_value
    from backfill.model.units import counted
    from backfill.policies import get
    from backfill.traces.slurm_site import read_slurm_site

    read = read_slurm_site(folder)
    platform = read.platform
    keys = {name: json_value(value) for name, value in get("slurm").resolved({}, platform).items()}
    if as_json:
        about = {"schema": 1, "backfill": __version__, "format": "slurm-site", "version": read.site.version}
        said = {"found": dict(read.found), "missing": dict(read.missing), "left_out": list(read.left_out)}
        print_json({**about, "platform": platform.as_dict(), **said, "notes": list(read.notes), "parameters": keys})
        return
    size = f"{counted(len(platform.nodes), 'node')}, {counted(platform.cpus, 'cpu')}"
    print(f"{platform.name}: Slurm {read.site.version}, {size}")
    for file, what in read.found.items():
        print(f"  {file}: {what}")
    for name, what in read.missing.items():
        print(f"  no {name}.txt: {what}")
    print(f"policy slurm: {', '.join(f'{name}={value:.15g}' for name, value in keys.items())}")
    for text in read.left_out:
        print(f"left out: {text}")
    for text in read.notes:
        say.note(text)
    say.following(shlex.join(["backfill", "simulate", "LOG", "--policy", "slurm", "--site", say.path(folder)]))
