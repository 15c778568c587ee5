"""`import lsf`: the file lsb.acct of IBM Spectrum LSF.

Source: LSF Configuration Reference, "lsb.acct", record JOB_FINISH. The order of its last fields is read from records
of versions 9.1 and 10.1, where the run limit stands before `options3`.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from backfill.model.clock import Clock
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND, counted
from backfill.traces.accounting.records import Accounted, workload_of
from backfill.traces.accounting.stays import SECONDS_MAX, Record, Stays
from backfill.traces.broken import COUNT_MAX, BrokenLine, BrokenLines, whole
from backfill.traces.files import Source

_TOKEN = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_DONE, _EXIT = 64, 32  # jStatus
_TERM_RUNLIMIT, _TERM_OWNER, _TERM_ADMIN, _TERM_FORCE_OWNER, _TERM_FORCE_ADMIN = 5, 14, 15, 8, 9  # exitInfo
_RUSAGE = re.compile(r"rusage\[([^\]]*)\]")
_AMOUNT = re.compile(r"\b(mem|ngpus_physical|ngpus_excl_p|ngpus_shared)=(\d+(?:\.\d+)?)")
_BEFORE = re.compile(r"\(\s*\"?(\d+)(?:\[[^\]]*\])?\"?")
_MIB = 2**20


def read_lsf(source: Source) -> Accounted:
    """Read the jobs of an lsb.acct file. Raises WorkloadError."""
    broken, notes = BrokenLines(source.file), list[str]()
    table = Stays.of(_records(source, broken, notes), source.file)
    return workload_of(table, source, broken, clock=Clock(0), notes=notes)


def _records(source: Source, broken: BrokenLines, notes: list[str]) -> Iterator[Record]:
    others, asked = 0, 0
    for line, text in enumerate(source.lines(), start=1):
        if not text.strip() or text.startswith("#"):
            continue
        fields = _Fields(text)
        if not (fields.quoted[0] and fields.texts[0].isupper()):
            broken.add(line, BrokenLine("the line", text, 'a record such as "JOB_FINISH" "10.1" ...'))
            continue
        if fields.texts[0] != "JOB_FINISH":
            others += 1
            continue
        try:
            record = _record(fields)
        except BrokenLine as problem:
            broken.add(line, problem)
            continue
        asked += record.memory > 0
        yield record
    if asked:
        notes.append("memory (rusage[mem=...] of the effective resource requirement) is taken as MB on each host")
    if others:
        notes.append(f"skipped: {counted(others, 'record')} that are not JOB_FINISH")


class _Fields:
    """The fields of a record, read one after the other."""

    def __init__(self, text: str) -> None:
        matches = _TOKEN.findall(text)
        self.texts: list[str] = [bare or quoted.replace('""', '"') for quoted, bare in matches]
        self.quoted = [not bare for _, bare in matches]
        self.at = 1

    def text(self) -> str:
        """Return the next field. Raises BrokenLine at the end of the record."""
        if self.at >= len(self.texts):
            raise BrokenLine("the record", self.texts[-1], "more fields, as lsb.acct has them")
        self.at += 1
        return self.texts[self.at - 1]

    def whole(self, name: str, most: int = COUNT_MAX) -> int:
        """Return the next field as a number, -1 if unset."""
        text = self.text()
        return -1 if text == "-1" else whole(name, text, most)

    def instant(self, name: str) -> int:
        """Return the next field in microseconds since 1970; NO_TIME if it is 0 or -1."""
        seconds = self.whole(name, SECONDS_MAX)
        return seconds * SECOND if seconds > 0 else NO_TIME

    def skip(self, count: int) -> None:
        """Skip this many fields."""
        self.at += max(count, 0)

    @property
    def ended(self) -> bool:
        """Return whether no field is left."""
        return self.at >= len(self.texts)


def _record(fields: _Fields) -> Record:
    fields.text()  # version
    end, number = fields.instant("event time"), fields.whole("jobId")
    fields.skip(2)  # userId, options
    slots, submit = fields.whole("numProcessors"), fields.instant("submitTime")
    begin, term, start = fields.instant("beginTime"), fields.instant("termTime"), fields.instant("startTime")
    user, queue = fields.text(), fields.text()
    wish, depends = fields.text(), fields.text()
    fields.skip(7)  # preExecCmd, fromHost, cwd, inFile, outFile, errFile, jobFile
    fields.skip(fields.whole("numAskedHosts"))
    hosts, held = _hosts(tuple(fields.text() for _ in range(fields.whole("numExHosts"))))
    status = fields.whole("jStatus")
    fields.skip(3)  # hostFactor, jobName, command
    fields.skip(19)  # lsfRusage
    fields.skip(1)  # mailUser
    project = fields.text()
    fields.skip(1)  # exitStatus
    most = fields.whole("maxNumProcessors")
    fields.skip(2)  # loginShell, timeEvent
    index = fields.whole("idx")
    fields.skip(7)  # maxRMem, maxRSwap, inFileSpool, commandSpool, rsvId, sla, exceptMask
    fields.skip(1)  # additionalInfo
    why = fields.whole("exitInfo")
    limit, effective = _limit(fields)
    gpus, memory = _amounts(effective or wish)
    nodes = max(len(hosts), 1)
    if submit == NO_TIME:
        raise BrokenLine("submitTime", "0", "seconds since 1970")
    return Record(
        job=f"{number}[{index}]" if index else str(number),
        submit=submit,
        eligible=max(submit, begin),
        start=start,
        end=end,
        walltime=limit * SECOND if limit > 0 else NO_TIME,
        nodes=len(hosts),
        cpus=held or most or slots,
        memory=memory * nodes,
        gpus=gpus * nodes,
        status=_status(status, why, start != NO_TIME),
        user=user,
        group=project,
        queue=queue,
        hosts=hosts,
        after=tuple(_BEFORE.findall(depends)),
        deadline=term,
    )


def _limit(fields: _Fields) -> tuple[int, str]:
    """Return the run limit in seconds, 0 if none, and the effective resource requirement.

    Both follow the resource usage of each host, which has five or six fields depending on the version; records of old
    versions end before it.
    """
    # warningAction, warningTimePeriod, chargedSAAP, licenseProject, app, postExecCmd, runtimeEstimation, jobGroupName,
    # requeueEvalues, options2, resizeNotifyCmd, lastResizeTime, rsvId, jobDescription
    fields.skip(14)
    if fields.ended:
        return 0, ""
    fields.skip(2 * fields.whole("submitEXT"))
    if fields.ended:
        return 0, ""
    hosts, place = fields.whole("numHostRusage"), fields.at
    for each in (6, 5):
        at = place + each * hosts
        if fields.quoted[at : at + 4] == [False, False, False, True]:
            fields.at = at
            limit = fields.whole("runLimit", SECONDS_MAX)
            return limit, fields.texts[at + 3]
    return 0, ""


def _status(code: int, why: int, ran: bool) -> str:
    if code == _DONE:
        return "completed"
    if why == _TERM_RUNLIMIT:
        return "timeout"
    if why in (_TERM_OWNER, _TERM_ADMIN, _TERM_FORCE_OWNER, _TERM_FORCE_ADMIN) or not ran:
        return "cancelled"
    return "failed" if code == _EXIT else f"status {code}"


@lru_cache(maxsize=1 << 16)
def _hosts(names: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """Return the hosts and the total number of slots: `16*n1` is 16 slots; otherwise a name repeats for each slot."""
    hosts: dict[str, None] = {}
    slots = 0
    for text in names:
        count, star, name = text.partition("*")
        slots += whole("execHosts", count) if star and count.isdecimal() else 1
        hosts[name if star else text] = None
    return tuple(hosts), slots


@lru_cache(maxsize=1 << 14)
def _amounts(wish: str) -> tuple[int, int]:
    """Return the GPUs and the bytes that a resource requirement reserves on each host."""
    amounts: dict[str, float] = {}
    for section in _RUSAGE.findall(wish):
        for name, value in _AMOUNT.findall(section):
            if not float(value) <= COUNT_MAX:
                raise BrokenLine(name, value, f"a number up to {COUNT_MAX:,}")
            amounts.setdefault("mem" if name == "mem" else "gpus", float(value))
    return int(amounts.get("gpus", 0)), int(amounts.get("mem", 0) * _MIB)
