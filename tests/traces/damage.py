"""Small inputs of every format that is read, and what may be wrong with such a file."""

import gzip
import io
import json
import re
from pathlib import Path

import polars as pl
from hypothesis import strategies as st

from tests.traces import test_accounting as accounting
from tests.traces import test_alibaba as alibaba
from tests.traces import test_inventory as inventory
from tests.traces import test_mwf as mwf
from tests.traces import test_swf as swf

HERE = Path(__file__).parent


def _lines(file: str, count: int) -> str:
    return "".join((HERE / file).read_text().splitlines(keepends=True)[:count])


_SLURM = json.loads((HERE / "slurm" / "sacct.json").read_text())
_SINFO = json.loads((HERE / "slurm" / "sinfo.json").read_text())
_HISTORY = json.loads((HERE / "htcondor" / "history.json").read_text())
_SLOTS = json.loads((HERE / "htcondor" / "slots.json").read_text())

TABLE = """job,submit,runtime,walltime,tasks,cpus,memory,gpus,licences,deadline,priority,user,partition,constraint,\
after,think,waited,status,time_zero
a,0,600,900,1,4,8G,a100:1,matlab:1,2000,1.5,ann,long,gpu&ssd,,,5,completed,1996-09-23T12:00:31Z[Europe/Stockholm]
b,60.25,3600,01:00:00,2,16,64000M,,"abaqus:4;matlab",,,bob,,!old,a,7,,failed,
c,61,50,,1,1,,,,,,,,,a;b,,,,
"""
DATES = """job;submit;start;end;procs;project;qos;queue;spread;memory_per_cpu
x;2026-03-01T12:00:00;2026-03-01T12:01:00Z;2026-03-01 13:00+01:00;4;p;high;q;node;2G
y;2026-03-01T12:00:01;1772366500;1772366600.5;2;p;low;;any;
"""

_HEADER = _lines("slurm/sacct.psv", 1).strip().replace("|", ",")

# What `import FORMAT` reads.
LOGS: dict[str, tuple[str, ...]] = {  # the format, a log, further words of the command line
    "sacct": ("sacct", _lines("slurm/sacct.psv", 5)),
    "sacct without header": ("sacct", _lines("slurm/sacct-epoch-no-header.psv", 3), "--fields", _HEADER),
    "sacct of all kinds": (
        "sacct",
        "JobID|State|User|Submit|Eligible|Start|End|Timelimit|TimelimitRaw|Elapsed|Suspended|NCPUS|NNodes|ReqMem"
        "|AllocTRES|AllocGRES|NodeList|Constraints|SubmitLine\n"
        "5+0|COMPLETED|ann|2026-03-01T12:00:00||2026-03-01T12:01:00|2026-03-01T12:03:00|01:00:00|60|00:02:00|00:00:00"
        "|8|2|4Gn|cpu=8,mem=8G,node=2,gres/gpu:a100=2,license/x=1|gpu:2|n[01-02]|[fast|x86]|sbatch -d afterok:7_2\n"
        "5+1|COMPLETED|ann|2026-03-01T12:00:00||2026-03-01T12:01:00|2026-03-01T12:03:00|1-00:00:00||2:00|00:01:00"
        "|4|1|2000Mc|cpu=4,node=1||n03||\n"
        "7_[2-4%2]|CANCELLED by 0|bob|2026-03-01T12:00:00|2026-03-01T12:00:30|Unknown|2026-03-01T12:05:00"
        "|Partition_Limit||00:00:00||1|1|||gpu:1||gpu|sbatch --dependency=afterany:5 x.sh\n",
    ),
    "slurm": ("slurm", json.dumps(_SLURM | {"jobs": _SLURM["jobs"][:2]}, indent=1)),
    "pbs": (
        "pbs",
        accounting.pbs("1", "exec_vnode=(n1:ncpus=4:mem=838kb:ngpus=1)+(n2:ncpus=4:mem=8gb) Resource_List.place=excl")
        + accounting.pbs("2", "exec_host=n1/0-3+n2/7 Resource_List.mem=2gb depend=afterok:1.srv")
        + accounting.pbs("3", "Resource_List.select=2:ncpus=13:mem=4gb:ngpus=1:ib=True Resource_List.walltime=90")
        + accounting.pbs("4", "exec_host=c1/0*13 Resource_List.nodes=1:ppn=13:avx Resource_List.ncpus=26")
        + "03/01/2026 12:01:00;S;5.srv;user=ann ctime=100 start=120 exec_host=n1/0\n"
        + "03/01/2026 12:02:00;R;5.srv;end=150\n",
    ),
    "lsf": ("lsf", accounting.lsf() + accounting.lsf(idx=4, begin=130, depends="done(8)", status=32, why=5)),
    "sge": ("sge", accounting.sge() + accounting.sge(2, "-l h_rt=100,gpu=1", 1, 100, 137)),
    "sge in milliseconds": ("sge", accounting.sge(unit=1_652_111_621)),
    "htcondor": ("htcondor", json.dumps(accounting.ADS, indent=0)),
    "htcondor, long": ("htcondor", accounting.long(accounting.ADS)),
    "htcondor, printed": ("htcondor", json.dumps(_HISTORY[:1], indent=0)),
    "htcondor, events": ("htcondor", accounting.EVENTS),
    "swf": (
        "swf",
        "; MaxProcs: 64\n; UnixStartTime: 8452\n; TimeZoneString: Europe/Berlin\n; Queue: 1 batch\n"
        + swf.line(f1=1, f15=1).decode()
        + swf.line(f1=2, f17=1, f18=3).decode(),
    ),
    "mwf": ("mwf", mwf.pbs("2:ppn=4:cl_small:^n7+1:ppn=8:mem=3gb#excl", f1=1) + mwf.pbs("1:ppn=2", f1=2)),
    "mwf of alea": ("mwf", mwf.mwf("2", "-1", "all:4x24", f1=1) + mwf.mwf("-1", "-1", "ssd:1x2", f1=2)),
    "alibaba": ("alibaba", alibaba.HEADER + alibaba.PODS),
    "csv": ("csv", TABLE),
    "csv of dates": ("csv", DATES),
}  # fmt: skip

# What --platform reads.
PLATFORMS: dict[str, str] = {
    "scontrol": _lines("slurm/nodes.txt", 2) + "\n".join((HERE / "slurm" / "nodes.txt").read_text().splitlines()[-2:])
    + "\nLicenseName=matlab\n    Total=5 Used=1 Free=4\n",
    "sinfo": _lines("slurm/sinfo.txt", 5),
    "sinfo, columns": "NODELIST|CPUS|MEMORY|GRES|PARTITION|AVAIL_FEATURES\n"
    "n[01-02]|64+|512000+|gpu:a100:4(S:0-1)|gpu*|ib\n",
    "sinfo, json": json.dumps(_SINFO | {"sinfo": _SINFO.get("sinfo", [])[:2]}, indent=0),
    "scontrol, json": json.dumps(
        {"nodes": [{"name": "n1", "cpus": 4, "real_memory": 8000, "gres": "gpu:a100:2", "features": "ib,fast",
                    "partitions": ["long", "short"]}]}, indent=0),
    "pbsnodes": inventory.PBS,
    "pbsnodes, json": json.dumps(
        {"nodes": {"n1": {"queue": "q", "resources_available": {"ncpus": 64, "mem": "2637kb", "ngpus": 2}}}}, indent=0),
    "condor_status": json.dumps(_SLOTS[:2], indent=0),
    "condor_status, long": accounting.long([{"Name": "slot1@a", "Machine": "a", "Cpus": 3, "Memory": 10, "GPUs": 1,
                                             "PartitionableSlot": True, "TotalSlotCpus": 8}]),
    "toml": '[[node]]\nname = "n"\ncount = 2\ncpus = 4\nmemory = "8G"\nspeed = 1.5\nfeatures = ["ssd"]\ngpus = 1\n'
    'gpu_type = "a100"\nnode_licences = {abaqus = 1}\n[[licence]]\nname = "matlab"\ncopies = 3\n'
    '[[partition]]\nname = "long"\nnodes = ["n1"]\nmax_walltime = "1d"\npriority = 2.5\n'
    '[[limit]]\nname = "l"\nper = "user"\nusers = ["ann"]\nrunning_jobs = 1\n'
    '[[fairshare]]\nuser = "ann"\ntarget = 40.0\n',
}  # fmt: skip

_FARM = """[[node]]
name = "n1"
cpus = 32
gpus = 2
[[node]]
name = "n2"
cpus = 32
[[licence]]
name = "matlab"
copies = 3
[[licence]]
name = "abaqus"
copies = 9
"""
_JOBS = "job,submit,runtime,walltime,tasks,cpus,after\na,0,600,900,1,4,\nb,60.25,3600,3600,2,16,a\nc,61,50,50,1,1,\n"
_SCHEDULE = (
    "job,submit,start,end,state,reason,node\na,0,0,600,COMPLETED,head,n1\n"
    "b,60.25,600,4200,COMPLETED,fill,n1:1;n2:1\nc,61,,,REJECTED,cpus,\n"
)
_RUNS = (
    "job,run,start,end,state,reason,node,progress\na,1,0,300,NODE_FAIL,head,n1,0\n"
    "a,2,300,900,COMPLETED,head,n1,600\nb,1,900,4500,COMPLETED,head,n1:1;n2:1,3600\n"
)
_EVENTS = (
    "time,event,node,resource,value,job,begin,end\n0,down,n1,,,,,\n600,up,n1,,,,,\n5,capacity,,matlab,2,,,\n"
    "6,cancel,,,,c,,\n7,priority,,,2.5,b,,\n8,walltime,,,1h,b,,\n9,window,n2,,,,20,30\n"
)
_LINES = """{"time": 0, "event": "down", "node": "n1"}
{"time": 1.5, "event": "capacity", "resource": "matlab", "value": "2"}
"""
_CHECKED = {"jobs.csv": _JOBS, "farm.toml": _FARM, "plan.csv": _SCHEDULE}
_VERIFY = ("verify", "jobs.csv", "plan.csv", "--platform", "farm.toml", "-q")

# Files that come with others: all of them, and the command that reads the first one named.
TABLES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "machines of mwf": (
        {"machines": mwf.ALEA, "log": LOGS["mwf"][1]}, ("import", "mwf", "log", "--machines", "machines"),
    ),
    "nodes of alibaba": (
        {"nodes": alibaba.NODES, "log": LOGS["alibaba"][1]}, ("import", "alibaba", "log", "--machines", "nodes"),
    ),
    "plan.csv": (_CHECKED, _VERIFY),
    "jobs.csv with a schedule": (_CHECKED, _VERIFY),
    "runs.csv": (_CHECKED | {"runs.csv": _RUNS}, (*_VERIFY, "--runs", "runs.csv")),
    "events.csv": (_CHECKED | {"events.csv": _EVENTS}, (*_VERIFY, "--events", "events.csv")),
    "events.jsonl": (_CHECKED | {"events.jsonl": _LINES}, (*_VERIFY, "--events", "events.jsonl")),
    "table.csv to simulate": (
        {"table.csv": TABLE, "farm.toml": _FARM},
        ("simulate", "table.csv", "--platform", "farm.toml", "--policy", "fcfs", "--verify", "-q"),
    ),
    "table.csv to anonymize": ({"table.csv": TABLE, "copy.csv": ""}, ("anonymize", "table.csv", "--out", "copy.csv")),
}  # fmt: skip

NUMBERS = [
    "0", "-1", "1", "007", "2147483648", "4294967295", "4294967296", "9007199254740993", str(2**61), str(2**62),
    str(2**63 - 1), str(2**63), str(2**64), str(2**64 - 1), "1" + "0" * 30, "9" * 400, "9" * 5000, "1e3", "1e18",
    "1e19", "1e308", "1e309", "-1e309", "1E5", "nan", "NaN", "inf", "-Infinity", "0x10", "1_000", "1,000", "1.5",
    "-0.0", "0.0000001", ".5", "5.", "+5", "--5", "1e", "²", "٣", "１２", "½", "100000000000", "100000000001",
    "99999999999.999999", "1e-400", "4G", "4.5P", "9999999P", "1 2", "", "null", "true",
]  # fmt: skip
DATED = [
    "0001-01-01T00:00:00", "9999-12-31T23:59:59", "5138-11-16T09:46:40", "2026-02-30T12:00:00", "2026-03-01T24:00:00",
    "2026-03-01T12:00:60", "2026-03-01T12:60:00", "2026-03-29T02:30:00", "0000-00-00T00:00:00", "1969-12-31T23:59:59",
    "2026-03-01", "2026-W10-1", "20260301T120000", "2026-03-01T12:00:00+99:00", "2026-03-01T12:00:00-23:59",
    "2026-03-01T12:00:00.123456789", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "٢٠٢٦-03-01T12:00:00",
    "2026-3-1T1:2:3", "Unknown", "None", "now", "12:00", "-1-00:00:00", "99999999999-00:00:00", "1-99:99:99",
    "00:00:00.5", "13/32/2026 25:61:61", "02/30/2026 12:00:00", "01/01/0001 00:00:00", "1-", "-", ":", "1:2:3:4:5",
]  # fmt: skip
WORDS = [
    "", " ", "\t", "a b", "a,b", "a;b", "a|b", 'a"b', "'", '"', "\\", "\\u0000", "é", "\u202e", "\u2028", "\x85",
    "\x1c", "\x00", "\x1b[31m", "😀", "\ufeff", "a\nb", "a\r", "\r\n", "%s", "{0}", "[", "]", "[1-", "[1-2000000]",
    "n[1-3,7", "[0-999999][0-999999]", "a[1-2][3-4]", "(", ")", "&", "|", "!", "a&", "a&&b", "!!a", "gpu:", ":2",
    "a:b:c", "-1", "x" * 300, "None", "undefined", "UNLIMITED", "INFINITE", "=", "a=", "=b", "a=b=c", "cpu=-1",
    "mem=1.5", "gres/gpu=", "1+", "1+1", "1_[", "1_[1-]", "1_[5-1]", "1_[1-3:0]", "1.batch", "#", "//", "<a>",
    "${HOME}", "*", "16*", "x*n1", "0*n1",
]  # fmt: skip
VALUES = [
    "null", "true", "false", "0", "-1", "1.5", "1e400", "-1e400", "NaN", "Infinity", str(2**63), str(2**64),
    "9" * 400, "9" * 5000, '""', '"x"', '"1"', '"\\ud800"', '"\\u0000"', "[]", "[null]", "[[]]", "{}",
    '{"set": true, "infinite": false, "number": 18446744073709551616}', '{"set": false}', '{"number": "x"}',
    '{"number": null}', '{"a": {"b": []}}', "[" * 2000 + "]" * 2000, "'x'", "",
]  # fmt: skip
BYTES = [
    b"\xff", b"\x00", b"\xc3\x28", b"\xed\xa0\x80", b"\xe9", b"\xef\xbb\xbf", b"\x1a", b"\r", b"\x80\x81", b"\n\n",
    b'"', b"\x0b\x0c",
]  # fmt: skip
CODES = ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "cp037", "utf-7"]

_NUMBER, _DATE = (
    re.compile(r"\d+(?:\.\d+)?"),
    re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+|\d\d/\d\d/\d{4} [\d:]+|(?:\d+-)?\d+:\d\d:\d\d"),
)
_WORD, _VALUE = re.compile(r"[^\s,;:|=\"']+"), re.compile(r'(?<=: )(?:"[^"]*"|[-\w.]+)')
_KINDS = ((_NUMBER, NUMBERS), (_DATE, DATED), (_WORD, WORDS), (_WORD, [*NUMBERS, *DATED]), (_VALUE, VALUES))


@st.composite
def damaged(draw: st.DrawFn, text: str) -> bytes:
    """A text in which some things are not as they should be."""
    for _ in range(draw(st.integers(1, 3))):
        edit = draw(st.sampled_from(("replace",) * 8 + ("cut", "double", "move")))
        if edit == "replace":
            pattern, values = draw(st.sampled_from(_KINDS))
            matches = list(pattern.finditer(text))
            if not matches:
                continue
            match = matches[draw(st.integers(0, len(matches) - 1))]
            text = text[: match.start()] + draw(st.sampled_from(values)) + text[match.end() :]
            continue
        lines = text.splitlines(keepends=True)
        if not lines:
            continue
        place = draw(st.integers(0, len(lines) - 1))
        if edit == "cut":
            lines[place] = lines[place][: draw(st.integers(0, len(lines[place])))]
        elif edit == "double":
            lines.insert(place, lines[place])
        else:
            lines.append(lines.pop(place))
        text = "".join(lines)
    data = text.encode("utf-8", "surrogatepass")
    how = draw(st.sampled_from(("plain",) * 6 + ("bytes", "code", "end", "packed", "damaged gzip")))
    if how == "bytes":
        place = draw(st.integers(0, len(data)))
        return data[:place] + draw(st.sampled_from(BYTES)) + data[place:]
    if how == "code":
        return text.encode(draw(st.sampled_from(CODES)), "replace")
    if how == "end":
        return data.replace(b"\n", draw(st.sampled_from((b"\r\n", b"\r", b"\n\r", b""))))
    if how == "packed":
        return gzip.compress(data, mtime=0)
    if how == "damaged gzip":
        packed = gzip.compress(data, mtime=0)
        place = draw(st.integers(2, len(packed) - 1))
        return draw(st.sampled_from((packed[:place], packed[:place] + b"\xff" + packed[place + 1 :])))
    return data


CELLS = [
    None, 0, 1, -1, 2**63 - 1, -(2**63), 1.5, float("nan"), float("inf"), 1e300, "x", "", "1", "a\x00b", True,
    b"\xff", [1], {"a": 1},
]  # fmt: skip


@st.composite
def parquet(draw: st.DrawFn) -> bytes:
    """A Parquet file with the columns of a workload, and cells of any type in some of them."""
    rows = draw(st.integers(0, 3))
    columns = {
        "job": [str(row) for row in range(rows)],
        "submit": [5 * row for row in range(rows)],
        "runtime": [60.5] * rows,
    }
    for name in draw(
        st.lists(
            st.sampled_from((*columns, "procs", "memory", "user", "after", "deadline", "gpus", "start")), max_size=3
        )
    ):
        cell = draw(st.sampled_from(CELLS))
        columns[name] = [cell] * rows
    packed = io.BytesIO()
    pl.DataFrame(columns, strict=False).write_parquet(packed)
    return packed.getvalue()
