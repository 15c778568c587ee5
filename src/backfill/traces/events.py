"""Read and write events, what happens to jobs and machines during a simulation, as CSV or JSON lines."""

import json
from pathlib import Path
from typing import Any

from backfill.model.errors import BadArgument, EventsError, at, quote
from backfill.model.events import COLUMNS, Events
from backfill.traces.columns import Columns, write_rows
from backfill.traces.files import Source, written_text

JSON = (".jsonl", ".ndjson", ".json")
SUFFIXES = (".csv", *JSON)
_EXPECTED = f"{', '.join(SUFFIXES)}, each also with .gz behind it"


def read_events(source: Source | bytes | str | Path) -> Events:
    r"""Read events from a file, plain or gzip: CSV, or one JSON object a line; docs/reference/files.md has the columns.

    Raises EventsError with file, line and column, and UsageError for standard input, from which jobs are read.

    >>> import backfill as bf
    >>> from pathlib import Path
    >>> _ = Path("outage.csv").write_text("time,event,node\n0,down,n1\n600,up,n1\n")
    >>> len(bf.read_events("outage.csv"))
    2
    """
    if isinstance(source, str | Path) and str(source) == "-":
        raise BadArgument("events", "-", f"a file: {_EXPECTED}")
    if isinstance(source, str | Path) and not suffix_of(str(source)):
        raise EventsError(at(str(source), None, f"unknown suffix; expected {_EXPECTED}"))
    opened = Source.of(source, EventsError)
    suffix = suffix_of(opened.file) or (JSON[0] if opened.data.lstrip().startswith(b"{") else ".csv")
    return _json(opened) if suffix in JSON else _csv(opened)


def write_events(events: Events, path: str | Path) -> None:
    """Write events as CSV, compressed if the path ends in .gz; values as stated in the file they were read from.

    Columns that no event uses are omitted.
    """
    columns = [name for name in COLUMNS if name in ("time", "event") or any(events.cells[name])]
    with written_text(path) as out:
        write_rows(out, columns, zip(*(events.cells[name] for name in columns), strict=True))


def suffix_of(path: str) -> str:
    """Return the format suffix of a file name, one of SUFFIXES; empty if it has none of them."""
    name = path.lower().removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")


def _csv(source: Source) -> Events:
    table = Columns(source, EventsError)
    table.require("time", "event")
    cells = {name: table.texts(name) for name in table.names}
    return Events.of(cells, name=_name(source), sha256=source.sha256, file=source.file, lines=table.lines())


def _json(source: Source) -> Events:
    rows, lines = [], []
    for number, line in enumerate(source.data.split(b"\n"), 1):
        if line.strip():
            rows.append(_fields(source.file, number, line))
            lines.append(number)
    return Events.of(rows, name=_name(source), sha256=source.sha256, file=source.file, lines=lines)


def _fields(file: str, number: int, line: bytes) -> dict[str, str | None]:
    """Return the fields of one JSON line; numbers stay texts so that every digit counts."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise EventsError(at(file, number, f"field {quote(twice)} appears twice"))
        return fields

    try:
        fields = json.loads(line.decode(), parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=once)
    except UnicodeDecodeError as problem:
        raise EventsError(at(file, number, f"is not UTF-8 text: byte {line[problem.start]:#04x}")) from None
    except (json.JSONDecodeError, RecursionError) as problem:
        message = problem.msg if isinstance(problem, json.JSONDecodeError) else "nested too deeply"
        raise EventsError(at(file, number, f"is not JSON: {message}")) from None
    if not isinstance(fields, dict):
        raise EventsError(at(file, number, f"{quote(line.decode())}; expected an object with {', '.join(COLUMNS)}"))
    for name, value in fields.items():
        if not isinstance(value, str | None):
            message = f"{quote(name).strip(chr(39))} is {quote(json.dumps(value))}; expected a text or a number"
            raise EventsError(at(file, number, message))
    return fields


def _name(source: Source) -> str:
    """Return the file's name without folder and format."""
    name = Path(source.file).name
    bare = name[:-3] if name.lower().endswith(".gz") else name
    return bare[: -len(suffix)] if (suffix := suffix_of(bare)) else bare.strip("<>")
