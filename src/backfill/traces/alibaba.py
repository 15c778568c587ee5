"""The Alibaba GPU cluster trace of 2023: a table of pods and one of nodes.

Source: Weng et al., Beware of fragmentation, USENIX ATC 2023, and the folder cluster-trace-gpu-v2023 of
github.com/alibaba/clusterdata. docs/reference/files.md lists which column each value comes from.
"""

from pathlib import Path

import numpy as np

from backfill.model.errors import PlatformError, WorkloadError, at, in_file
from backfill.model.platform import Platform
from backfill.model.workload import Ints, Jobs, Labels, Workload
from backfill.traces.columns import Columns
from backfill.traces.files import Source
from backfill.traces.machines import Kind, platform_of
from backfill.traces.notes import REPEATED, check_repeats, count_notes, counted, oddities, repeated

RESOURCES = ("cpus", "memory", "gpu_milli")
PHASES = ("pending", "running", "succeeded", "failed", "unknown")  # of pods, in lower case
_MIB = 2**20
_MOST = 2**40  # of milli-cpus and MiB
_GPUS_MAX = 10**6  # and thousandths of one


def read_alibaba(source: Source, machines: Platform | str | Path | None = None, *, repeats: str = "refuse") -> Workload:
    """Read the scheduled pods as jobs of one task; with a table of nodes, read the platform too.

    repeats: `refuse` a table with a duplicate pod, or `drop` the later rows. Raises WorkloadError and
    PlatformError with file, line and column.
    """
    check_repeats(repeats)
    platform = read_nodes(Source.of(machines, PlatformError)) if isinstance(machines, str | Path) else machines
    table = Columns(source, WorkloadError)
    table.require("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "creation_time", "deletion_time",
                  "scheduled_time")  # fmt: skip
    names = table.ids("name", repeats)
    submit, ended = table.times("creation_time"), table.times("deletion_time", blank=-1)
    started = table.times("scheduled_time", blank=-1)
    milli = _wholes(table, "cpu_milli")
    rounded = -(-milli // 1000)
    demand = np.column_stack(
        [
            rounded,
            _wholes(table, "memory_mib") * _MIB,
            _wholes(table, "num_gpu", _GPUS_MAX) * _wholes(table, "gpu_milli", _GPUS_MAX),
        ]
    )
    phases = Labels.of([text.lower() for text in table.texts("pod_phase")])
    at_the_end = ended == ended.max(initial=0)
    never, endless = started < 0, (started >= 0) & (ended < started)
    rows = np.flatnonzero(~(never | endless))
    again = repeated([names[row] for row in rows])
    dropped = counted({"never scheduled": never, "no end after its start": endless, REPEATED: again})
    rows = rows[~again]
    missing = {
        "walltime missing: the run time is used": np.ones(table.rows, np.bool_),
        "fractional cpus: rounded up": milli % 1000 > 0,
        "running when the trace ends: its run may be cut short": at_the_end,
        "start before the submit: the wait is taken as unknown": started < submit,
    }
    whole = milli[rows].sum()
    assumed = counted({what: which[rows] for what, which in missing.items()})
    with in_file(table.file):
        jobs = Jobs(
            job=np.array(names, object),
            submit=submit,
            runtime=np.maximum(ended - started, 0),
            walltime=np.maximum(ended - started, 0),
            requested=np.zeros(table.rows, np.bool_),
            demand=demand,
            constraint=Labels.of(table.texts("gpu_spec")),
            qos=Labels.of(table.texts("qos")),
            waited=np.where(started >= submit, started - submit, -1),
            status=phases,
        ).take(rows)
    return Workload(
        jobs,
        name=source.name,
        resources=RESOURCES,
        sha256=source.sha256,
        cpus=platform.cpus if platform else None,
        dropped=dropped,
        assumed=assumed,
        notes=(
            *count_notes(assumed, len(jobs)),
            *(
                [f"cpus rounded up to whole ones are {1000 * rounded[rows].sum() / whole - 1:.1%} more"]
                if whole
                else []
            ),
            "gpu_milli are thousandths of GPUs, summed over a node: which of its GPUs a pod shares is not modelled",
            *oddities(jobs),
        ),
        platform=platform,
    )


def read_nodes(source: Source) -> Platform:
    """Read the table of nodes, with the GPU model as a node feature. Raises PlatformError with file and line."""
    table = Columns(source, PlatformError)
    table.require("sn", "cpu_milli", "memory_mib", "gpu", "model")
    amounts = np.column_stack(
        [_wholes(table, "cpu_milli") // 1000, _wholes(table, "memory_mib") * _MIB, _wholes(table, "gpu") * 1000]
    )
    if not amounts[:, 0].any():
        raise PlatformError(
            at(source.file, None, "no node has a whole cpu; expected cpu_milli >= 1000 for at least one")
        )
    kinds = [
        Kind(name, None, tuple(held), (model,) if model else ())
        for name, held, model in zip(table.texts("sn"), amounts.tolist(), table.texts("model"), strict=True)
    ]
    return platform_of(kinds, RESOURCES, source.file)


def _wholes(table: Columns, name: str, most: int = _MOST) -> Ints:
    return table.wholes(name, 0, most, 0)
