"""Writes a workload file of any format."""

from pathlib import Path

from backfill.model.errors import BadArgument, wrong_type
from backfill.model.workload import Workload
from backfill.traces.files import SUFFIXES, suffix_of
from backfill.traces.swf import write_swf
from backfill.traces.table import write_csv, write_parquet


def write(workload: Workload, path: str | Path) -> None:
    """Write a workload, whole or not at all, in the format of the suffix: .swf or .csv (.gz) or .parquet.

    Raises UsageError for another suffix, and WorkloadError where the format cannot say what a job holds.

    >>> import backfill as bf
    >>> bf.write(bf.generate("lublin?jobs=100&cpus=64"), "jobs.csv.gz")
    """
    if not isinstance(workload, Workload):
        raise wrong_type("workload", workload, "a Workload, such as that of read(file)")
    suffix = check_suffix(path)
    if suffix.startswith(".swf"):
        write_swf(workload, path)
    elif suffix == ".parquet":
        write_parquet(workload, path)
    else:
        write_csv(workload, path)


def check_suffix(path: str | Path, *also: str) -> str:
    """The suffix of a file to write. Raises UsageError for one that is not written; `also` says what else could be."""
    if suffix := suffix_of(str(path)):
        return suffix
    raise BadArgument("out", str(path), ", or ".join([f"a name that ends in {', '.join(SUFFIXES)}", *also]))
