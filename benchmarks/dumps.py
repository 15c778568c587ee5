"""Dumps of sacct, as large as asked for: several shapes, of which each makes another part of the import work."""

from datetime import UTC, datetime

import numpy as np

COLUMNS = ("JobID|User|Account|Partition|QOS|Submit|Eligible|Start|End|State|Elapsed|Timelimit|NNodes|NCPUS|ReqMem|"
           "ReqTRES|AllocTRES|NodeList")  # fmt: skip
STATES = ("COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 1001")
SHAPES = ("jobs", "steps", "arrays", "gangs", "mixed")


def sacct(lines: int, shape: str, seed: int = 1) -> str:
    """The text of a dump with so many lines.

    `jobs`: a line each, on one of 1,000 nodes. `steps`: jobs with .batch, .extern and a numbered step. `arrays`: tasks
    of arrays of 100, all of one kind. `gangs`: each on several of 5,000 nodes, hardly two alike. `mixed`: as a site has
    them: all of that, jobs that were requeued, cancelled before they ran, or consist of unequal components.
    """
    if shape == "mixed":
        return _mixed(lines, seed)
    draw = np.random.default_rng(seed)
    many = lines // 4 if shape == "steps" else lines
    submit = 1_700_000_000 + np.cumsum(draw.integers(0, 30, many))
    start = submit + draw.integers(0, 20_000, many)
    runtime = draw.integers(1, 80_000, many)
    limit = (1 + draw.integers(0, 96, many)) * 900
    user, node, state = draw.integers(0, 400, many), draw.integers(0, 1_000, many), draw.integers(0, len(STATES), many)
    size = draw.integers(2, 40, many) if shape == "gangs" else np.ones(many, np.int64)
    cpus = size * (1 << draw.integers(0, 7, many)) if shape != "arrays" else size * 4
    memory = draw.integers(1, 200, many) if shape != "arrays" else 8 * size
    found = [COLUMNS]
    for job in range(many):
        first = int(node[job])
        hosts = f"n[{first:04}-{first + size[job] - 1:04}]" if size[job] > 1 else f"n{first:04}"
        name = f"{1_000 + job // 100}_{job % 100}" if shape == "arrays" else str(1_000 + job)
        tres = f"billing={cpus[job]},cpu={cpus[job]},mem={memory[job]}G,node={size[job]}"
        times = "|".join(map(_date, (submit[job], submit[job], start[job], start[job] + runtime[job])))
        shared = f"{STATES[state[job]]}|{_span(runtime[job])}"
        found.append(
            f"{name}|u{user[job]}|a{user[job] % 20}|p{user[job] % 4}|normal|{times}|{shared}|{_span(limit[job])}|"
            f"{size[job]}|{cpus[job]}|{memory[job]}G|{tres}|{tres}|{hosts}"
        )
        for step in ("batch", "extern", "0") if shape == "steps" else ():
            found.append(f"{name}.{step}||a{user[job] % 20}|||{times}|{shared}||1|{cpus[job]}|||{tres}|{hosts}")
    return "\n".join(found) + "\n"


def _mixed(lines: int, seed: int) -> str:
    """A tenth of each kind of job, and four tenths of jobs with steps."""
    draw = np.random.default_rng(seed)
    kinds = {shape: iter(sacct(lines, shape, seed).splitlines()[1:]) for shape in ("jobs", "steps", "arrays", "gangs")}
    found = [COLUMNS]
    number = 10**7
    while len(found) <= lines:
        kind = int(draw.integers(0, 10))
        number += 1
        if kind < 4:
            found += [next(kinds["steps"]) for _ in range(4)]
            continue
        name, *cells = next(kinds[("jobs", "arrays", "gangs")[kind % 3]]).split("|")
        if kind == 7:  # requeued: the same submit, and a second line behind it
            first = [*cells[:8], "REQUEUED", *cells[9:]]
            again = [*cells[:6], *(text.replace("202", "203", 1) for text in cells[6:8]), *cells[8:]]
            found += ["|".join([str(number), *first]), "|".join([str(number), *again])]
        elif kind == 8:  # never ran
            never = [*cells[:6], "None", cells[7], "CANCELLED by 7", "00:00:00", *cells[10:-2], "", "None assigned"]
            found.append("|".join([str(number), *never]))
        elif kind == 9 and number % 5 == 0:  # two components
            found += ["|".join([f"{number}+{part}", *cells]) for part in range(2)]
        else:
            found.append("|".join([f"{kind}{name}", *cells]))
    return "\n".join(found[: lines + 1]) + "\n"


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _span(seconds: int) -> str:
    days, rest = divmod(int(seconds), 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days}-{clock}" if days else clock
