"""Anonymous copies of the dumps of a Slurm site, for sharing: what the policy `slurm` reads, under other names.

Only known files, keys, columns and options are copied; everything else is left out. Which nodes, users and accounts
are the same, and their order, stays.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from backfill.model.errors import PlatformError, at
from backfill.traces.accounting.hosts import host_names
from backfill.traces.anonymous import Aliases
from backfill.traces.broken import BrokenLine
from backfill.traces.files import Source, written_text
from backfill.traces.slurm_moment import reason_code
from backfill.traces.slurm_requests import gpus_of, options_of
from backfill.traces.slurm_site import (
    ASSOC,
    CONFIG,
    FIELDS,
    LICENCES,
    NODES,
    PARTITIONS,
    QOS,
    RESERVATIONS,
    SACCT,
    SDIAG,
    SPRIO,
    SQUEUE,
    SSHARE,
    dump_of,
)

_CONFIG = {
    "slurm_version", "schedulertype", "schedulerparameters", "prioritytype", "prioritymaxage", "prioritydecayhalflife",
    "prioritycalcperiod", "priorityusageresetperiod", "priorityfavorsmall", "priorityflags", "fairsharedampeningfactor",
    "priorityweightage", "priorityweightassoc", "priorityweightfairshare", "priorityweightjobsize",
    "priorityweightpartition", "priorityweightqos", "priorityweighttres", "accountingstoragetype",
    "accountingstorageenforce", "selecttype", "selecttypeparameters", "overtimelimit", "killwait", "completewait",
    "preempttype", "preemptmode", "messagetimeout", "topologyplugin",
}  # fmt: skip
_KEPT = {  # keys of `scontrol show`, in this order; those of _NAMES are renamed
    NODES: "NodeName CPUTot CPUEfctv RealMemory Gres AvailableFeatures State Weight Partitions",
    PARTITIONS: "PartitionName AllowAccounts Default DefaultTime MaxTime MinNodes MaxNodes MaxCPUsPerNode LLN Nodes "
    "PriorityJobFactor PriorityTier OverSubscribe OverTimeLimit ExclusiveUser QoS State TRESBillingWeights",
    LICENCES: "LicenseName Total",
    RESERVATIONS: "ReservationName StartTime EndTime Nodes",
}
_SAME = ("ALL", "N/A", "(null)", "None", "NONE", "", "UNLIMITED", "Unknown", "None assigned")
_COLUMNS = {  # of tables that hold names -> their kind
    "account": "group", "parentname": "group", "user": "user", "partition": "partition", "qos": "qos", "defqos": "qos",
    "preempt": "qos", "cluster": "cluster", "name": "qos", "reservation": "reservation",
}  # fmt: skip
_TRES = ("grptres", "grptresmins", "grptresrunmins", "maxtres", "maxtrespu", "maxtrespa", "tresrunmins", "maxtresmins",
         "reqtres", "alloctres", "tres")  # fmt: skip
_PLAIN = {  # columns of sacct that hold numbers, dates and codes
    "jobid", "jobidraw", "submit", "eligible", "start", "end", "timelimit", "timelimitraw", "nnodes", "ncpus",
    "reqcpus", "reqnodes", "reqmem", "state", "priority", "flags", "restarts", "elapsed", "elapsedraw",
}  # fmt: skip
_OPTIONS = {  # of a command line -> the kind of names in their values; empty: numbers
    "partition": "partition", "account": "group", "qos": "qos", "reservation": "reservation", "nodelist": "node",
    "exclude": "node", "constraint": "feature", "licenses": "licence", "bb": "", "dependency": "",
    **dict.fromkeys(("ntasks", "nodes", "cpus-per-task", "time", "time-min", "mem", "mem-per-cpu", "ntasks-per-node",
                     "nice", "exclusive", "array", "switches", "contiguous", "spread-job", "overcommit", "deadline",
                     "gpus", "gpus-per-node", "gpus-per-task", "gres"), ""),
}  # fmt: skip
_NUMBER = re.compile(r"[\d.:,%+@-]*[KMGTP]?B?")
_WORD = re.compile(r"[\w.+-]+")


def anonymous_dumps(folder: str | Path, out: str | Path, aliases: Aliases) -> list[str]:
    """Write the dumps of a folder with aliases in place of names to another folder; return the files written.

    Raises PlatformError if there is none.
    """
    aliases.known.setdefault("group", {}).setdefault("root", "root")  # Slurm's own name
    writer = _Writer(aliases)
    written = []
    for name, rewrite in (
        (NODES, writer.entries),
        (PARTITIONS, writer.entries),
        (LICENCES, writer.entries),
        (RESERVATIONS, writer.entries),
        (CONFIG, writer.config),
        (ASSOC, writer.table),
        (QOS, writer.table),
        (SSHARE, writer.table),
        (SACCT, writer.sacct),
        (SPRIO, writer.columns),
        (SQUEUE, writer.columns),
        (SDIAG, writer.sdiag),
    ):
        if (source := dump_of(Path(folder), name)) is not None:
            Path(out).mkdir(parents=True, exist_ok=True)
            path = Path(out) / f"{name}.txt"
            with written_text(path) as file:
                file.writelines(f"{line}\n" for line in rewrite(name, source))
            written.append(str(path))
    if not written:
        raise PlatformError(at(str(folder), None, "has no dump of a Slurm site"))
    return written


class _Writer:
    """The lines of each dump with other names."""

    def __init__(self, aliases: Aliases) -> None:
        self.aliases = aliases

    def of(self, kind: str, name: str) -> str:
        """Return the alias of one name; that of a cluster is always the same."""
        if name.strip() in _SAME:
            return name
        return "cluster" if kind == "cluster" else self.aliases.of(kind, name.strip())

    def listed(self, kind: str, names: str) -> str:
        """Return the aliases of a list with commas."""
        return ",".join(self.of(kind, name) for name in names.split(","))

    def nodes(self, text: str) -> str:
        """Return the aliases of a list of nodes; empty for one that cannot be read."""
        try:
            return self.listed("node", ",".join(host_names(text))) if text not in _SAME else text
        except ValueError:
            return ""

    def tres(self, text: str) -> str:
        """Return amounts of resources, `cpu=4,license/abc=1`, with other names of licences and without other names."""
        found = []
        for part in text.split(","):
            name, equals, amount = part.partition("=")
            kind = name.lower()
            if kind.startswith("license/"):
                name = f"license/{self.of('licence', name.partition('/')[2])}"
            elif kind.startswith("gres/"):
                name = name.partition(":")[0]
            if equals and (kind in ("cpu", "mem", "node", "billing") or kind.startswith(("license/", "gres/"))):
                found.append(f"{name}={amount}")
        return ",".join(found)

    def entries(self, name: str, source: Source) -> list[str]:
        """Return the entries of `scontrol show node` and the like, a line each."""
        kept = _KEPT[name].split()
        text = "".join(source.pieces())
        lines = []
        for block in re.split(rf"(?m)^(?={kept[0]}=)", text):
            pairs = dict(reversed(re.findall(r"(\w+)=(\S*)", block)))
            if kept[0] in pairs:
                lines.append(" ".join(f"{key}={self.value(key, pairs[key])}" for key in kept if key in pairs))
        return lines

    def value(self, key: str, text: str) -> str:
        """Return the value of a key of `scontrol show`."""
        kinds: dict[str, Callable[[str], str]] = {
            "NodeName": lambda each: self.of("node", each),
            "PartitionName": lambda each: self.of("partition", each),
            "ReservationName": lambda each: self.of("reservation", each),
            "LicenseName": lambda each: self.of("licence", each),
            "AllowAccounts": lambda each: self.listed("group", each),
            "Partitions": lambda each: self.listed("partition", each),
            "AvailableFeatures": lambda each: self.listed("feature", each),
            "QoS": lambda each: self.of("qos", each),
            "Nodes": self.nodes,
            "TRESBillingWeights": lambda each: each if each in _SAME else self.tres(each),
            "Gres": lambda each: each if each in _SAME else re.sub(r"gpu:[A-Za-z]\w*", "gpu", each),
        }
        return kinds.get(key, str)(text)

    def config(self, _name: str, source: Source) -> list[str]:
        """Return the keys of the configuration that the policy reads."""
        lines = []
        for line in source.lines():
            key, equals, value = (part.strip() for part in line.partition("="))
            if not equals or key.lower() not in (*_CONFIG, "clustername", "epilog"):
                continue
            if key.lower() == "clustername":
                value = "cluster"
            elif key.lower() == "epilog":
                value = value if value in _SAME else "set"
            elif key.lower() == "priorityweighttres":
                value = self.tres(value)
            lines.append(f"{key} = {value}")
        return lines

    def table(self, name: str, source: Source) -> list[str]:
        """Return the rows of a table of sacctmgr or sshare, with a header."""
        names = FIELDS[name].split()
        lines = []
        for line in source.lines():
            cells = line.rstrip("\r\n").split("|")
            keys = [cell.strip().replace(" ", "").lower() for cell in cells]
            if keys[:2] in (["cluster", "account"], ["name", "priority"], ["account", "user"]):
                names = keys
                lines.append("|".join(cells))
            elif any(keys):
                pairs = zip(names, cells, strict=False)
                lines.append("|".join(self.cell(key, cell) for key, cell in pairs))
        return lines

    def cell(self, key: str, text: str) -> str:
        """Return one cell of a table; the indentation of accounts is part of a tree."""
        indent = text[: len(text) - len(text.lstrip())]
        if key in ("qos", "preempt"):
            return self.listed("qos", text)
        if key in _COLUMNS:
            return indent + self.of(_COLUMNS[key], text.strip())
        return self.tres(text) if key in _TRES else text

    def sacct(self, _name: str, source: Source) -> list[str]:
        """Return the jobs of sacct, with command lines of known options only."""
        lines: list[str] = []
        names: list[str] = []
        for line in source.lines():
            cells = line.rstrip("\r\n").split("|")
            if not names:
                names = [cell.strip().lower() for cell in cells]
                lines.append("|".join(cell for cell, key in zip(cells, names, strict=True) if self.keeps(key)))
                continue
            if len(cells) < len(names):
                continue
            cells[len(names) - 1 :] = ["|".join(cells[len(names) - 1 :])]
            lines.append("|".join(self.job(key, cell) for key, cell in zip(names, cells, strict=True)
                                  if self.keeps(key)))  # fmt: skip
        return lines

    def keeps(self, key: str) -> bool:
        """Return whether a column of sacct is copied."""
        return key in _PLAIN or key in _COLUMNS or key in _TRES or key in ("nodelist", "constraints", "submitline")

    def job(self, key: str, text: str) -> str:
        """Return one cell of sacct."""
        if key == "submitline":
            return self.command(text)
        if key == "nodelist":
            return self.nodes(text)
        if key == "constraints":
            return self.names("feature", text)
        if key == "state":
            return text.split(" ")[0]
        if key == "partition":
            return self.listed("partition", text)
        return self.cell(key, text)

    def command(self, text: str) -> str:
        """Return a command line of the known options, with other names and without its script."""
        words = []
        for option, value in options_of(text).items():
            if option not in _OPTIONS:
                continue
            kind = _OPTIONS[option]
            if option == "bb":
                value = "x"
            elif kind == "node":
                value = self.nodes(value)
            elif kind:
                value = self.names(kind, value)
            elif option == "dependency":
                value = "".join(re.findall(r"after\w*(?::\d+)+|singleton|[,?]", value))
            elif option.startswith(("gpus", "gres")):
                value = self.gpus(option, value)
            elif not _NUMBER.fullmatch(value):
                value = ""
            words.append(f"--{option}={value}" if value else f"--{option}" if option in _BARE else "")
        return " ".join(["sbatch", *filter(None, words)])

    def gpus(self, option: str, text: str) -> str:
        """Return the GPUs that an option states, without their types; empty for none or what cannot be read."""
        try:
            count = gpus_of(option, text)
        except BrokenLine:
            return ""
        return f"gpu:{count}" if count and option == "gres" else str(count or "")

    def names(self, kind: str, text: str) -> str:
        """Return a text with every word but numbers renamed, for lists with marks such as `a&b|c` or `lic:2`."""
        return _WORD.sub(lambda each: self.of(kind, each[0]) if not each[0].isdecimal() else each[0], text)

    def columns(self, name: str, source: Source) -> list[str]:
        """Return the rows of sprio or squeue, in columns with blanks."""
        header: list[str] = []
        lines = []
        for line in source.lines():
            cells = line.split()
            if cells[:1] == ["JOBID"]:
                header = cells
                lines.append(" ".join(cells))
            elif cells and name == SPRIO:
                lines.append(" ".join(self.ranked(header, cells)))
            elif cells:
                code = reason_code(cells[3:])
                lines.append(" ".join([*cells[:3], code if code.isalpha() else "None"]))
        return lines

    def ranked(self, header: Sequence[str], cells: Sequence[str]) -> list[str]:
        """Return the cells of a row of sprio; of two columns PARTITION the first one is a name."""
        kinds = dict.fromkeys(range(len(cells)), "") | {1: "partition", 2: "user"}
        if header:
            places = {"user": "USER", "group": "ACCOUNT", "qos": "QOSNAME", "partition": "PARTITION"}
            kinds = {header.index(head): kind for kind, head in places.items() if head in header}
        return [
            self.of(kind, cell) if (kind := kinds.get(i, "")) else (self.tres(cell) or "0") if "=" in cell else cell
            for i, cell in enumerate(cells)
        ]

    def sdiag(self, _name: str, source: Source) -> list[str]:
        """Return the statistics of the backfill loop."""
        lines: Sequence[str] = [line.rstrip() for line in source.lines()]
        begins = [i for i, line in enumerate(lines) if line.startswith("Backfilling stats")]
        return list(lines[begins[0] : begins[0] + 18]) if begins else []


_BARE = ("exclusive", "contiguous", "spread-job", "overcommit", "nice")
