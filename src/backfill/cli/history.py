"""backfill history: the jobs of the live queue that are over."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from backfill.cli import say
from backfill.cli.inputs import check_outputs
from backfill.cli.options import Json, Quiet, Verbose, examples
from backfill.cli.output import print_json
from backfill.client.printing import table
from backfill.model.errors import BadArgument, UsageError
from backfill.model.names import printable
from backfill.model.units import clock_text, counted, local_text
from backfill.queue.states import OVER
from backfill.queue.words import Unreadable, parse_past
from backfill.system.home import home

if TYPE_CHECKING:
    from backfill.answers.history import Filter
    from backfill.queue.store import Store

LAST = 20
GROUPS = ("user", "name", "project")


@examples(
    "backfill history",
    "backfill history --since 7d --by user",
    "backfill history --user ana --state FAILED,TIMEOUT --json",
    "backfill history --since 7d --workload week.csv",
    "backfill simulate week.csv --platform week.toml --policy easy --overrun extend",
)
def history(
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="List jobs that ended since then: 7d, 12h, 16:00, 2030-01-31."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="List jobs that ended before then.")
    ] = None,
    user: Annotated[str, typer.Option("--user", metavar="NAME,...", help="List jobs of these users.")] = "",
    name: Annotated[str, typer.Option("--name", metavar="NAME,...", help="List jobs with these names.")] = "",
    state: Annotated[
        str,
        typer.Option("--state", metavar="STATE,...", help=f"List jobs that ended in these states: {', '.join(OVER)}."),
    ] = "",
    last: Annotated[
        int | None,
        typer.Option("--last", metavar="N", min=1, help=f"List only the last N jobs. [default: {LAST}; --json: all]"),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="COLUMN", help="Print one line for each user, name or project.")
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="OUT.csv",
            help="Write these jobs, and their machine beside them, for simulate and compare.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """List the jobs of the live queue that are over, or write them as a workload."""
    from backfill.answers.history import Filter, cpus, ended, opened, row, summed

    wanted = Filter(
        _instant("--since", since), _instant("--until", until), _names(user), _names(name), _names(state.upper())
    )
    if unknown := [each for each in wanted.states if each not in OVER]:
        raise BadArgument("state", unknown[0], ", ".join(OVER))
    if by is not None and by not in GROUPS:
        raise BadArgument("by", by, ", ".join(GROUPS))
    if by is not None and workload is not None:
        raise UsageError("--by and --workload cannot be combined")
    store = opened(Path(home()))
    all_of_them = last is None and (as_json or workload or by)
    shown, count = ended(store, wanted, None if all_of_them else last or LAST)
    had = cpus(store, shown) if workload is None else {}
    if workload is not None:
        _write(store, [job.id for job in shown], wanted, workload)
    elif as_json:
        rows = summed(shown, by, had) if by else [row(job, had[job.id]) for job in shown]
        print_json({"schema": 1, f"{by or 'job'}s": rows})
    elif by is not None:
        _print_groups(summed(shown, by, had), by)
    else:
        lines = [["JOB", "NAME", "USER", "STATE", "CPUS", "ENDED", "WAIT", "RAN", "LIMIT USED"]]
        again = any(job.preemptions for job in shown)  # a column that few queues need
        lines[0] += ["PREEMPTED"] * again
        now = time.time_ns() // 1000
        for each in [row(job, had[job.id]) for job in shown]:
            ran = None if each["start_s"] is None else each["end_s"] - each["start_s"]
            lines.append([
                each["label"], printable(each["name"])[:20], printable(each["user"])[:12], each["state"],
                str(each["cpus"]), local_text(round(each["end_s"] * 1e6), now), _span(each["wait_s"]),
                _span(ran), _share(None if ran is None else min(ran / each["limit_s"], 1.0)),
                *[str(each["preemptions"] or "-")] * again,
            ])  # fmt: skip
        if len(lines) > 1:
            table(lines, right=(0, 4, 6, 7, 8, 9))
        more = f", the last {len(shown):,} are shown" if len(shown) < count else ""
        print(f"{counted(count, 'job')} over{more}")
    store.close()


def _write(store: "Store", chosen: list[int], wanted: "Filter", out: str) -> None:
    """Write the workload, its platform and its events, and print the next command."""
    from backfill.answers.history import recorded
    from backfill.cli.platforms import beside, write_platform
    from backfill.traces.events import write_events
    from backfill.traces.write import check_suffix, write

    suffix = check_suffix(out, option="workload")
    if suffix.startswith(".swf"):
        raise BadArgument("workload", out, "a name that ends in .csv or .parquet, since SWF has no licences")
    machine = beside(out, suffix, "workload")
    events = str(Path(out).with_name(Path(out).name.removesuffix(suffix) + "-events.csv"))
    check_outputs({}, workload=out)
    check_outputs({}, workload=events)
    exported = recorded(store.events(), chosen)
    write(exported.workload, out)
    say.note(f"wrote {out}: {counted(len(exported.workload), 'job')}")
    say.note(write_platform(exported.platform, machine))
    words = [say.path(out), "--platform", say.path(machine)]
    if len(exported.events):
        write_events(exported.events, events)
        say.note(f"wrote {events}: {counted(len(exported.events), 'event')}")
        words += ["--events", say.path(events)]
    for why, count in exported.left_out.items():
        say.note(f"{counted(count, 'job')} {why}")
    if wanted.users or wanted.names or wanted.states:
        say.note("jobs that were filtered out used a part of the machine, which a simulation treats as free")
    if len(exported.policies) > 1:
        say.note(f"the queue had {counted(len(exported.policies), 'policy').replace('policys', 'policies')} in turn")
    words += ["--policy", exported.policies[-1] if exported.policies else "easy", "--overrun", "extend"]
    say.following(f"backfill simulate {' '.join(words)}")


def _print_groups(rows: "list[dict[str, object]]", by: str) -> None:
    lines = [[by.upper(), "JOBS", "FAILED", "TIMEOUT", "MEDIAN WAIT", "P90 WAIT", "CPU H", "LIMIT USED"]]
    for each in rows:
        counts = [f"{each[column]:,}" for column in ("jobs", "failed", "timeout")]
        waits = [_span(each[column]) for column in ("median_wait_s", "p90_wait_s")]
        name = printable(str(each[by]))[:20] or "-"
        lines.append([name, *counts, *waits, f"{each['cpu_h']:,.1f}", _share(each["limit_used"])])
    if len(lines) > 1:
        table(lines, right=range(1, 8))
    else:
        print("0 jobs over")


def _span(seconds: object) -> str:
    return clock_text(round(seconds * 1e6)) if isinstance(seconds, float) else "-"


def _share(value: object) -> str:
    return f"{value:.0%}" if isinstance(value, float) else "-"


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _instant(option: str, text: str | None) -> int | None:
    """Return a time; a span such as 7d means that long ago. Raises UsageError."""
    if text is None:
        return None
    try:
        return parse_past(text, time.time_ns() // 1000)
    except Unreadable as error:
        raise UsageError(f"{option}: {error}") from None
