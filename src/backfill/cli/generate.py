"""backfill generate: a published workload model to a file."""

import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from backfill.cli import say
from backfill.cli.inputs import check_outputs
from backfill.cli.options import Json, Quiet, Verbose, examples, known_models
from backfill.cli.output import print_json
from backfill.cli.platforms import beside, write_platform
from backfill.model.errors import BadArgument, UsageError


@examples(
    "backfill generate lublin --jobs 10000 --cpus 128 --seed 1 --out jobs.swf",
    "backfill generate farm --jobs 1000 --set interarrival=6 --out farm.csv",
    "backfill generate lublin --jobs 5000 --load 0.9 --set estimate_factor=5 --out - | backfill simulate -",
)
def generate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A workload model, for instance lublin.", autocompletion=known_models)
    ],
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", help="Ends in .swf, .csv (.gz) or .parquet; - prints SWF.")
    ],
    jobs: Annotated[int | None, typer.Option("--jobs", metavar="N", help="Number of jobs.")] = None,
    cpus: Annotated[
        int | None, typer.Option("--cpus", metavar="N", help="Processors of the machine that the jobs are made for.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Random seed; the same seed gives the same jobs.")
    ] = None,
    load: Annotated[float | None, typer.Option("--load", metavar="F", help="Offered load, for instance 0.8.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another parameter of the model; repeatable.")
    ] = None,
    platform: Annotated[
        str | None,
        typer.Option(
            "--platform", metavar="OUT.toml", help="File for the model's own platform. [default: beside --out]"
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Write a workload drawn from a published model, and its platform if the model has one."""
    from backfill.traces.write import check_suffix, write

    suffix = ".swf"
    if out == "-" and as_json:
        raise UsageError("--out - prints the jobs; leave out --json, or name a file")
    if out != "-":
        suffix = check_suffix(out, "-")
        check_outputs({}, out=out)

    from backfill.workloads import generate as make

    given = {"jobs": jobs, "cpus": cpus, "seed": seed, "load": load}
    pairs = [(key, str(value)) for key, value in given.items() if value is not None] + [
        _pair(s) for s in settings or []
    ]
    text = model.removeprefix("model:") + (("&" if "?" in model else "?") + urlencode(pairs) if pairs else "")
    workload = make(text)
    if workload.platform is None:
        if platform is not None:
            raise UsageError(f"model {model} has no platform of its own; leave out --platform")
    elif suffix.startswith(".swf"):
        raise UsageError(
            f"model {model} produces resources or licences, which SWF cannot hold; give --out a .csv or .parquet"
        )
    else:
        if platform is None:
            platform = beside(out, suffix)
        else:
            check_outputs({}, platform=platform)
    if out == "-":
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "jobs.swf"
            write(workload, file)
            with open(file, encoding="utf-8") as stream:
                shutil.copyfileobj(stream, sys.stdout)
        return
    write(workload, out)
    say.note(f"wrote {out}: {len(workload):,} jobs")
    words = ["--cpus", str(workload.cpus)] if workload.cpus and not suffix.startswith(".swf") else []
    if platform is not None:
        say.note(write_platform(workload.platform, platform))
        words = ["--platform", platform]
    if as_json:
        print_json({"schema": 1, "model": text, "out": out, "platform": platform, "jobs": len(workload)})
    say.following(shlex.join(["backfill", "simulate", say.path(out), *words]))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise BadArgument("set", text, "KEY=VALUE")
    return key, value
