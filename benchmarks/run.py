"""Measure what the speed claims rest on, and say whether each target is met.

    python benchmarks/run.py [--quick] [--only NAME ...] [--save] [--into PAGE]

Every ratio comes from one run on the same work, the two taking turns. `--save` writes results.json beside this file,
`--into docs/reference/speed.md` the table of the curves into that page.
"""

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numba
import numpy as np
from curves import write_into
from llvmlite import binding
from measure import Result, Target
from suites import SUITES

from backfill.model.errors import BackfillError

SAVED = Path(__file__).parent / "results.json"
COLUMNS = ("", "unit", "best", "median of n", "target", "ratio to", "best", "median", "target", "looks/job", "waiting")
WIDTHS = (37, 9, 11, 16, 13, 8, 6, 6, 7, 9, 8)


def number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def bound(target: Target | None) -> str:
    return f"{'<=' if target.most else '>='} {number(target.bound)}" if target else ""


def line(cells: tuple[str, ...]) -> str:
    name, unit, *rest = (f"{cell:{'<' if i < 2 else '>'}{WIDTHS[i]}}" for i, cell in enumerate(cells))
    return " ".join((name, unit, *rest)).rstrip()


def row(result: Result) -> str:
    cells = (
        result.name,
        result.unit,
        number(result.best),
        f"{number(result.median)} of {len(result.values)}",
        bound(result.target),
        result.against,
        number(result.ratio),
        number(result.median_ratio),
        bound(result.ratio_target),
        number(result.facts.get("looks_per_job")),
        number(result.facts.get("most_waiting")),
    )
    verdict = {None: "", True: "  met", False: "  MISSED"}[result.met]
    return line(cells) + verdict + (f"  ({result.note})" if result.note else "")


def as_dict(result: Result) -> dict[str, Any]:
    derived = ("best", "median", "ratio", "median_ratio", "met")
    return asdict(result) | {name: getattr(result, name) for name in derived}


def machine() -> dict[str, Any]:
    return {
        "processor": binding.get_host_cpu_name(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numba": numba.__version__,
        "numpy": np.__version__,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the jobs and fewer repeats; no claim rests on it"
    )
    parser.add_argument("--only", action="append", choices=SUITES, metavar="NAME", help=f"one of {', '.join(SUITES)}")
    parser.add_argument("--save", action="store_true", help=f"write {SAVED.name}")
    parser.add_argument("--into", type=Path, metavar="PAGE", help="write the table of the curves into this page")
    options = parser.parse_args()
    measured: list[Result] = []
    results: dict[str, list[dict[str, Any]]] = {}
    missed = 0
    print(line(COLUMNS))
    for name in options.only or SUITES:
        print(name, flush=True)
        results[name] = []
        for result in SUITES[name](options.quick):
            if isinstance(result, str):
                print(f"  {result}", flush=True)
                continue
            print("  " + row(result), flush=True)
            missed += result.met is False
            results[name].append(as_dict(result))
            measured.append(result)
    print(f"{missed} targets missed" if missed else "every target met")
    if options.into is not None:
        write_into(options.into, measured)
    if options.save:
        saved = {"machine": machine(), "quick": options.quick, "results": results}
        SAVED.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BackfillError as error:
        sys.exit(f"benchmarks: {error}")
