"""Curves: how the time of a job grows with the nodes, with the waiting jobs, and with limits and windows.

`run.py --only curves --into PAGE` writes them as a table into a page of the documentation, between the lines BEGIN and
END.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from measure import Result, exponent, work

from backfill import loading
from backfill.model.errors import BackfillError
from backfill.model.events import Events
from backfill.model.partitions import Limit
from backfill.model.platform import Platform
from backfill.model.workload import Labels, Workload
from backfill.worlds.options import Options
from backfill.worlds.simulated import simulate
from workloads import CPUS, four_kinds, twenty_kinds, waiting

BEGIN, END = "<!-- begin of the curves -->", "<!-- end of the curves -->"
Case = tuple[Workload, Platform, Options]
Make = Callable[[int], Case]


def curves(quick: bool) -> Iterator[Result]:
    """CPU seconds for 10,000 jobs at several sizes, and the exponent between the first size and the last one.

    The jobs grow in number with the nodes, so that machines of all sizes are as busy, and from 5,000 on.
    A policy that takes minutes at a size is measured at the smaller ones.
    """
    for what, sizes, policies in (
        ("nodes of four kinds", (154, 624, 2_500, 10_000), {"easy": partial(_of_four_kinds, 10)}),
        (
            "nodes of twenty kinds",
            (154, 1_000, 10_000, 100_000),
            {"easy": partial(_of_twenty_kinds, 5), "conservative": partial(_of_twenty_kinds, 1.5)},
        ),
        ("waiting on 64 nodes", (1_000, 10_000, 100_000), {"easy": _on_64_nodes}),
        (
            "waiting on a pool",
            (1_000, 3_000, 10_000, 100_000),
            dict.fromkeys(("easy", "easy-wfp3", "conservative", "k-reservations:k=inf"), _on_a_pool),
        ),
        ("users with a limit", (1, 10, 100), dict.fromkeys(("easy", "conservative"), _limited)),
        ("announced windows", (1, 10, 100), dict.fromkeys(("easy", "conservative"), _with_windows)),
    ):
        for name, make in policies.items():
            most = SIZES.get((name, what), sizes[-1])
            yield from curve(name, what, [size for size in sizes if size <= most][: 2 if quick else None], make)


# The largest size at which a policy ends within a minute or so.
SIZES = {
    ("conservative", "nodes of twenty kinds"): 10_000,
    ("conservative", "waiting on a pool"): 10_000,
    ("k-reservations:k=inf", "waiting on a pool"): 10_000,
}


def curve(name: str, what: str, sizes: Sequence[int], make: Make) -> Iterator[Result]:
    """Yield a row for each size, and one for the exponent."""
    policy, params = loading.load(name)
    points = []
    for size in sizes:
        workload, platform, options = make(size)
        simulate(workload.head(200), platform, policy, params, options)  # compiles, or loads what was compiled
        begin = time.process_time()
        done = simulate(workload, platform, policy, params, options)
        seconds = (time.process_time() - begin) / len(workload)
        facts = work(done)
        points.append((size, seconds, int(facts["most_waiting"])))
        yield Result(f"{name}, {size:,} {what}", "s/10,000", [1e4 * seconds], less=True, facts=facts)
    slope = exponent(f"{what}, {name}", [(size, seconds) for size, seconds, _ in points])
    yield replace(slope, curve=(name, what, tuple(points)))


def table(results: Sequence[Result]) -> str:
    """Return the curves among these results as a table in Markdown."""
    lines = [
        "| size | policy | from, to | most jobs that waited | CPU seconds for 10,000 jobs | exponent |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        if result.curve is not None:
            name, what, took = result.curve
            sizes, seconds, waited = zip(*took, strict=True)
            grew, most = (", ".join(f"{each:,}" for each in column) for column in (sizes, waited))
            shown = ", ".join(f"{10_000 * each:.2g}" for each in seconds)
            lines.append(f"| {what} | `{name}` | {grew} | {most} | {shown} | {result.best:.2f} |")
    return "\n".join(lines)


def write_into(page: Path, results: Sequence[Result]) -> None:
    """Replace the table of a page. Raises BackfillError if the page has no place for it."""
    text = page.read_text(encoding="utf-8")
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise BackfillError(f"{page}: there is no place for the curves; expected the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n{table(results)}\n{END}{after}", encoding="utf-8")


FEWEST = 5_000  # jobs


def _of_four_kinds(per_node: float, nodes: int) -> Case:
    """A centre with GPUs, features and licences, or a part of it; the load per node stays."""
    return *four_kinds(max(round(per_node * nodes), FEWEST), parts=10_000 // nodes), Options()


def _of_twenty_kinds(per_node: float, nodes: int) -> Case:
    return *twenty_kinds(max(round(per_node * nodes), FEWEST), nodes=nodes, load=1.1), Options()


def _on_64_nodes(jobs: int) -> Case:
    return waiting(jobs), Platform.pool(CPUS, nodes=64), Options()


def _on_a_pool(jobs: int) -> Case:
    return waiting(jobs), Platform.pool(CPUS), Options()


def _limited(count: int) -> Case:
    """2,000 waiting jobs of as many users as there are limits, each with a limit of cpus."""
    base = waiting(2_000)
    users = Labels(np.arange(len(base), dtype=np.int32) % count, tuple(f"u{i}" for i in range(count)))
    limit = Limit(name="each", per="user", running={"cpus": max(CPUS * 2 // count, 256)})
    pool = replace(Platform.pool(CPUS), limits=(limit,))
    return base.with_jobs(base.jobs.replace(user=users)), pool, Options()


def _with_windows(count: int) -> Case:
    """2,000 waiting jobs beside as many announced windows, each of an hour on a sixteenth of the cpus."""
    windows = [
        {"time": 0, "event": "window", "resource": "cpus", "amount": CPUS // 16, "value": begin, "until": begin + 3_600}
        for begin in range(3_600, 3_600 + 18_000 * count, 18_000)
    ]
    return waiting(2_000), Platform.pool(CPUS), Options(events=Events.of(windows))
