"""The MetaCentrum dialects of SWF, with 21 fields: the last one states which nodes a job requests, and their shares.

In MetaCentrum logs, fields 19 and 20 are the used cpus and the queue; in workloads of the simulator AleaNG, the GPUs
of the whole job and a soft walltime. Source: D. Klusáček's data sets for Alea (github.com/aleasimulator).
docs/reference/files.md lists which field each value comes from.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import PlatformError
from backfill.model.platform import Platform
from backfill.model.workload import Ints, Labels, Workload
from backfill.traces.files import Source
from backfill.traces.machines import read_machines
from backfill.traces.node_spec import NodeSpec, alea_spec, number, pbs_spec
from backfill.traces.swf_lines import FIELDS, KB, Lines, count_fields

METACENTRUM = (*FIELDS, "used cpus", "queue", "node spec")
ALEA = (*FIELDS, "gpus", "soft walltime", "node spec")
_GPUS_MAX, _MEMORY_MAX = 10**9, 2.0**62
Assumed = dict[str, NDArray[np.bool_]]  # assumption -> mask of the jobs concerned


def is_mwf(source: Source) -> bool:
    """Return whether the first job of a log has 21 fields."""
    return count_fields(source) == len(METACENTRUM)


def read_mwf(
    source: Source,
    machines: Platform | str | Path | None = None,
    *,
    zero_run: str = "keep",
    repeats: str = "refuse",
    think: bool = False,
) -> Workload:
    """Read the jobs of a log with 21 fields, and the platform of its table of machines.

    machines: the table, or the platform itself; by default LOG.machines, if it is beside the log.
    zero_run, repeats, think: as for SWF. Raises WorkloadError and PlatformError with file, line and field.
    """
    platform = _platform(source, machines)
    lines = Lines.of(source, zero_run, repeats, METACENTRUM, think)
    texts = lines.texts(19)
    metacentrum = not texts or not _is_alea(texts[0][2])
    specs = _specs(lines, [cells[2] for cells in texts], metacentrum)
    gpus = np.zeros(len(texts), np.int64) if metacentrum else _gpus(lines, [cells[0] for cells in texts])
    constraint, untold, unknown = _constraints(specs, platform)

    tasks, cpus, of_shape = _shape(lines, specs, constraint, platform)
    memory, of_memory = _memory(lines, specs, 1 if metacentrum else KB)
    demand = [cpus, -(-memory // tasks)]
    if gpus.any() or (platform and "gpus" in platform.resources):
        demand.append(-(-gpus // tasks))
    missing = {
        **lines.missing,
        **of_memory,
        **of_shape,
        "gpus that do not divide evenly among tasks: rounded up in each": gpus % tasks > 0,
        "properties that no machine states: taken as held by all": untold,
    }
    notes = [
        f"requested memory (field 10) taken as {'bytes' if metacentrum else 'KB'} on each node",
        *([] if metacentrum else ["soft walltimes (field 20) are not used"]),
        *([f"no machine states these properties: {', '.join(unknown[:10])}"] if unknown else []),
        *([] if platform else ["no table of machines: the sizes of nodes and where jobs may run are unknown"]),
    ]
    columns = {"tasks": tasks, "demand": np.column_stack(demand), "constraint": constraint}
    if metacentrum:
        columns["queue"] = Labels.of(["" if cells[1] == "-1" else cells[1] for cells in texts])
    if specs and not lines.field[3].any():
        columns["waited"] = np.full(len(specs), -1)
        notes.append("all waits (field 3) are 0: taken as unknown")
    log = lines.workload(columns, ("cpus", "memory", "gpus")[: len(demand)], missing, notes)
    return replace(log, platform=platform, cpus=platform.cpus) if platform else log


def _shape(
    lines: Lines, specs: list[NodeSpec], constraint: Labels, platform: Platform | None
) -> tuple[Ints, Ints, Assumed]:
    """Return the number of equal tasks of each job, and the cpus per task."""
    agree = np.array([spec.procs for spec in specs], np.int64) == lines.procs
    tasks = np.array([spec.tasks(procs) for spec, procs in zip(specs, lines.procs.tolist(), strict=True)], np.int64)
    cpus = lines.procs // tasks
    whole, taken = np.array([spec.whole for spec in specs], np.bool_), "the cpus asked for"
    if platform and len(platform.nodes) > 1:
        cpus, taken = np.where(whole, np.maximum(cpus, _largest(platform, constraint)), cpus), "all cpus of the node"
    several = np.array([len(spec.asked) > 1 for spec in specs], np.bool_)
    return tasks, cpus, {
        "node spec that disagrees with field 8: field 8 counts": ~agree,
        "chunks of unequal size: taken as equal tasks": agree & (tasks != [spec.nodes for spec in specs]),
        "chunks that ask for different nodes: any task may run on all of them": several,
        f"whole nodes (#excl): taken as {taken}": whole,
    }  # fmt: skip


def _memory(lines: Lines, specs: list[NodeSpec], unit: int) -> tuple[Ints, Assumed]:
    """Return bytes that each job requests on all nodes together."""
    requested = np.rint(np.maximum(lines.field[10], 0) * unit).astype(np.int64)
    stated = np.array([spec.memory for spec in specs], np.int64)
    on_node, nodes = np.maximum(requested, stated), np.array([spec.nodes for spec in specs], np.int64)
    if (beyond := on_node.astype(np.float64) * nodes > _MEMORY_MAX).any():
        expected = "fewer nodes: they hold more memory than 2^62 bytes"
        raise lines.refused(int(np.argmax(beyond)), 21, expected, METACENTRUM)
    return on_node * nodes, {
        "requested memory missing: taken as 0": requested == 0,
        "node spec with more memory than field 10: the node spec is used": stated > requested,
    }


def _is_alea(text: str) -> bool:
    try:
        alea_spec(text)
    except ValueError:
        return False
    return True


def _platform(source: Source, machines: Platform | str | Path | None) -> Platform | None:
    if isinstance(machines, Platform):
        return machines
    beside = Path(source.file.removesuffix(".gz") + ".machines")
    if machines is None and not beside.is_file():
        return None
    return read_machines(Source.of(beside if machines is None else machines, PlatformError))


def _specs(lines: Lines, texts: list[str], metacentrum: bool) -> list[NodeSpec]:
    parse = pbs_spec if metacentrum else alea_spec
    known: dict[str, NodeSpec] = {}
    for job, text in enumerate(texts):
        if text not in known:
            try:
                known[text] = parse(text)
            except ValueError:
                example = "2:ppn=4:property" if metacentrum else "property:2x4"
                raise lines.refused(job, 21, f"a node spec such as {example}", METACENTRUM) from None
    return [known[text] for text in texts]


def _gpus(lines: Lines, texts: list[str]) -> Ints:
    """Return the GPUs of the whole job."""
    gpus = np.zeros(len(texts), np.int64)
    for job, text in enumerate(texts):
        try:
            gpus[job] = 0 if text == "-1" else number(text, 0, _GPUS_MAX)
        except ValueError:
            raise lines.refused(job, 19, f"a whole number up to {_GPUS_MAX:,}", ALEA) from None
    return gpus


def _constraints(specs: list[NodeSpec], platform: Platform | None) -> tuple[Labels, NDArray[np.bool_], list[str]]:
    """Return each job's constraints that machines state; the mask of jobs with other requests too; and those requests.

    Without machines, no constraint is kept.
    """
    untold = np.zeros(len(specs), np.bool_)
    unknown: dict[str, None] = {}
    if platform is None:
        return Labels.none(len(specs)), untold, []
    stated = {*platform.nodes, *platform.feature_names}
    texts = []
    for job, spec in enumerate(specs):
        parts = []
        for chunk in spec.asked:
            terms = []
            for asked, wanted in chunk:
                name = (
                    asked if asked in stated else asked.partition(".")[0]
                )  # a node's name, with or without its domain
                if name in stated:
                    terms.append(name if wanted else f"!{name}")
                else:
                    unknown[asked] = None
                    untold[job] = True
            parts.append("&".join(dict.fromkeys(terms)))
        texts.append("|".join(parts) if all(parts) else "")
    return Labels.of(texts), untold, list(unknown)


def _largest(platform: Platform, constraint: Labels) -> Ints:
    """Return the cpus of the largest node on which each job may run."""
    cpus = platform.capacity[:, 0]
    most = [cpus[platform.allows(text)].max(initial=0) for text in constraint.names]
    return np.array([*most, cpus.max()], np.int64)[constraint.codes]
