"""Write a workload file of any format."""

from pathlib import Path

from backfill.model.errors import BadArgument, wrong_type
from backfill.model.workload import Workload
from backfill.traces.files import SUFFIXES, suffix_of
from backfill.traces.swf import write_swf
from backfill.traces.table import write_csv, write_parquet


def write(workload: Workload, path: str | Path) -> None:
    """Write a workload, completely or not at all, in the format of the suffix: .swf or .csv (.gz) or .parquet.

    Raises UsageError for another suffix, and WorkloadError if the format cannot express what a job holds.

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


def check_suffix(path: str | Path, *also: str, option: str = "out") -> str:
    """Return the suffix of a file to write, which an option names. Raises BadArgument for any other suffix.

    also: further suffixes to name then.
    """
    if suffix := suffix_of(str(path)):
        return suffix
    raise BadArgument(option, str(path), ", or ".join([f"a name that ends in {', '.join(SUFFIXES)}", *also]))
