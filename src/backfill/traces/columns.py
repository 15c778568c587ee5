"""Read a table of text columns from CSV or Parquet, and check and convert its cells."""

import csv
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from backfill.model.errors import InputError, MissingExtra, at, quote
from backfill.model.names import did_you_mean
from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND, TIME_MAX, number, parse_size
from backfill.model.workload import Floats, Ints
from backfill.traces.broken import BrokenLines
from backfill.traces.files import PARQUET, Source, written
from backfill.traces.notes import first_repeat
from backfill.traces.seconds import to_micros

_CHUNK = 20_000  # rows that exist as lists at a time; many more slow down the garbage collector


@dataclass(frozen=True)
class _Nested:
    """A column of lists or records, which is an error only if it is used."""

    kind: str


class Columns:
    """Text columns by name, all of one length; every check names file, line and column of the first bad cell.

    With `broken`, a bad cell is not an error: its row is counted there, the mask `good` excludes it, and checks return
    some legal value for it.
    """

    def __init__(
        self,
        source: Source,
        error: type[InputError],
        aliases: Mapping[str, str] | None = None,
        broken: BrokenLines | None = None,
    ) -> None:
        """Read the whole table. aliases: other column names, mapped to the names used here."""
        self.file = source.file
        self._source = source
        self._error = error
        self._broken = broken
        self._line_of: list[int] | None = None
        self._separator = ","
        self._is_parquet = source.file.lower().endswith(".parquet") or source.data.startswith(PARQUET)
        names, self._columns, self.rows = self._parquet() if self._is_parquet else self._csv()
        self.good = np.ones(self.rows, np.bool_)
        self._called: dict[str, str] = {}
        self._place: dict[str, int] = {}
        for place, called in enumerate(names):
            name = (aliases or {}).get(called, called)
            if name in self._place:
                raise self._refused(1, f"column {quote(called)} and column {quote(self._called[name])} are the same")
            self._called[name], self._place[name] = called, place

    def __contains__(self, name: str) -> bool:
        return name in self._place

    @property
    def names(self) -> tuple[str, ...]:
        """All column names, in the file's order."""
        return tuple(self._place)

    def require(self, *names: str, hint: str = "") -> None:
        """Raise the error unless all these columns exist. hint: end of the message, with {} for the name."""
        for name in names:
            if name not in self:
                listed = quote(",".join(self._called.values()))
                raise self._refused(1, f"no column {name}; the columns are {listed}{hint.format(name)}")

    def require_headers(self, wanted: Iterable[tuple[str, str]]) -> None:
        """Raise the error unless these columns exist under these headers."""
        for name, header in wanted:
            if self._called.get(name) != header:
                listed = quote(",".join(self._called.values()))
                hint = did_you_mean(header, self._called.values(), f"the columns are {listed}")
                raise self._refused(1, f"no column {quote(header)} for {name}; {hint}")

    def texts(self, name: str) -> list[str]:
        """Return the cells, stripped of white space; all empty if the column is absent."""
        if name not in self:
            return [""] * self.rows
        return [text.strip() for text in self._cells(name)]

    def ids(self, name: str, repeats: str) -> list[str]:
        """Return the cells as texts, none empty, and no duplicates if `repeats` is `refuse`."""
        ids_of_rows = self.texts(name)
        for row, text in enumerate(ids_of_rows):
            if not text or not text.isprintable():
                self.refuse(name, row, "a text without control characters")
        if repeats == "refuse" and (repeat := first_repeat(ids_of_rows)):
            where = "an earlier row" if (line := self.line(repeat[1])) is None else f"line {line}"
            raise self.fail(name, repeat[0], f"a unique job id (first used in {where})")
        return ids_of_rows

    def times(
        self,
        name: str,
        low: int = -TIME_MAX,
        blank: int | None = None,
        high: int = TIME_MAX,
        parse: Callable[[str], int] | None = None,
        forms: str = "",
    ) -> Ints:
        """Convert seconds to microseconds from `low` to `high`, exactly; `blank` is the value of an empty cell.

        parse: converts other forms of time to microseconds, or raises ValueError; forms: how messages describe them.
        """
        expected = f"a number of seconds from {low // SECOND} to {high // SECOND}{forms}"
        if parse is not None and not self._are_numbers(name):
            return self._parsed(name, low, blank, high, parse, expected)
        seconds, blanks = self._floats(name, expected, blank is not None)
        wild = ~(np.abs(seconds) <= high / SECOND)
        self.refuse_any(name, wild, expected)
        seconds[wild] = 0
        micros = to_micros(seconds)
        for row in np.flatnonzero(np.abs(seconds) >= 2.0**33).tolist():  # floats too large for exact microseconds
            micros[row] = round(Decimal(self._cells(name)[row].strip()) * SECOND)
        beyond = (micros < low) | (micros > high)
        self.refuse_any(name, beyond, expected)
        micros[beyond] = max(low, 0)
        micros[blanks] = NO_TIME if blank is None else blank
        return micros

    def _parsed(
        self, name: str, low: int, blank: int | None, high: int, parse: Callable[[str], int], expected: str
    ) -> Ints:
        """Return the times of a column in which some cells are not plain numbers."""
        known: dict[str, int | None] = {}
        texts = self._cells(name)
        for text in texts:
            if text not in known:
                micros = None if text.strip() else blank
                if text.strip() and text.isascii():  # Python accepts other digits than ASCII
                    with suppress(ValueError):
                        micros = parse(text.strip())
                known[text] = micros if micros is not None and (low <= micros <= high or micros == blank) else None
        bad = np.array([known[text] is None for text in texts], np.bool_)
        self.refuse_any(name, bad, expected)
        return np.array([known[text] or 0 for text in texts], np.int64)

    def _are_numbers(self, name: str) -> bool:
        together = " ".join(self._cells(name))
        return not set(together) - set("0123456789.+-eE \t") and re.search(r"\d-", together) is None

    def wholes(self, name: str, low: int, high: int, blank: int) -> Ints:
        """Return whole numbers, or sizes with K, M, G or T, from `low` to `high`; empty cells are `blank`."""
        texts = self._cells(name)
        known: dict[str, int] = {}
        for text in set(texts):
            try:
                value = parse_size(text) if text.strip() else blank
                known[text] = value if low <= value <= high else NO_TIME
            except ValueError:
                known[text] = NO_TIME
        values = np.fromiter((known[text] for text in texts), np.int64, self.rows)
        bad = values == NO_TIME
        self.refuse_any(name, bad, f"a whole number from {low} to {high} that may carry K, M, G or T")
        values[bad] = max(low, 0)
        return values

    def numbers(self, name: str, blank: float) -> Floats:
        """Return finite numbers; `blank` is the value of an empty cell."""
        values, blanks = self._floats(name, "a finite number", True)
        wild = ~np.isfinite(values)
        self.refuse_any(name, wild, "a finite number")
        values[wild] = blank
        values[blanks] = blank
        return values

    def refuse(self, name: str, row: int, expected: str) -> None:
        """Report a bad cell: raise the error, or count its row as broken."""
        if self._broken is None:
            raise self.fail(name, row, expected)
        if self.good[row]:
            self.good[row] = False
            self._broken.add(self._in_line(row), self._complaint(name, row, expected))

    def refuse_any(self, name: str, bad: NDArray[np.bool_], expected: str) -> None:
        """Report each of these cells; without `broken`, raise the error for the first."""
        for row in np.flatnonzero(bad).tolist():
            self.refuse(name, row, expected)

    def _in_line(self, row: int) -> int | None:
        self._line_of = self.lines() if self._line_of is None else self._line_of
        return None if self._line_of is None else self._line_of[row]

    def _complaint(self, name: str, row: int, expected: str) -> str:
        where = f"row {row + 1}: " if self._is_parquet else ""
        return f"{where}{self._called[name]} is {quote(self._cells(name)[row])}; expected {expected}"

    def fail(self, name: str, row: int, expected: str) -> InputError:
        """Return the error that quotes a cell and what was expected of it."""
        return self._refused(self.line(row), self._complaint(name, row, expected))

    def line(self, row: int) -> int | None:
        """Return the line on which a row ends; None for Parquet."""
        if self._is_parquet:
            return None
        reader = self._reader()
        next(islice((cells for cells in reader if cells), row + 1, None))
        line: int = reader.line_num
        return line

    def lines(self) -> list[int] | None:
        """Return the line on which each row ends; None for Parquet."""
        if self._is_parquet:
            return None
        reader = self._reader()
        width = len(next(filter(None, reader), []))
        return [reader.line_num for cells in reader if cells and (self._broken is None or len(cells) == width)]

    def _floats(self, name: str, expected: str, may_be_blank: bool) -> tuple[Floats, NDArray[np.bool_]]:
        texts = self._cells(name)
        blanks = np.zeros(self.rows, np.bool_)
        together = "".join(texts)
        if together.isascii() and "_" not in together:  # Python accepts other digits and underscores
            with suppress(ValueError):
                return np.fromiter(map(float, texts), np.float64, self.rows), blanks
        values = np.zeros(self.rows)
        for row, text in enumerate(texts):
            try:
                values[row] = number(text)
            except ValueError:
                if text.strip() or not may_be_blank:
                    self.refuse(name, row, expected)
                blanks[row] = may_be_blank
        return values, blanks

    def _refused(self, line: int | None, what: str) -> InputError:
        return self._error(at(self.file, None if self._is_parquet else line, what))

    def _reader(self) -> Any:
        text = io.StringIO(self._source.data.decode(), newline="")
        return csv.reader(text, strict=True, delimiter=self._separator)

    def _cells(self, name: str) -> Sequence[str]:
        column = self._columns[self._place[name]]
        if isinstance(column, _Nested):
            raise self._refused(None, f"{self._called[name]} holds {column.kind}; expected texts or numbers")
        return column

    def _csv(self) -> tuple[list[str], Sequence[Sequence[str] | _Nested], int]:
        columns: list[list[str]] = []
        names: list[str] = []
        try:
            self._separator = _separator(self._source.data)
            reader = self._reader()
            rows: Iterator[list[str]] = filter(None, reader)
            names = [name.strip() for name in next(rows, [])]
            columns = [[] for _ in names]
            if self._broken is not None:
                rows = self._of_width(reader, self._broken, len(names))
            while chunk := list(islice(rows, _CHUNK)):
                if bad := next((cells for cells in chunk if len(cells) != len(names)), None):
                    line = self.line(len(columns[0]) + chunk.index(bad))
                    raise self._refused(line, f"{len(bad)} cells; expected {len(names)}, as in the header")
                for column, cells in zip(columns, zip(*chunk, strict=True), strict=True):
                    column.extend(cells)
        except UnicodeDecodeError as problem:
            line = self._source.data.count(b"\n", 0, problem.start) + 1
            raise self._refused(line, f"is not UTF-8 text: byte {self._source.data[problem.start]:#04x}") from None
        except csv.Error as problem:
            message = f"has a cell of more than {csv.field_size_limit():,} characters"
            message = message if "field limit" in str(problem) else f"is not CSV: {problem}"
            raise self._refused(reader.line_num, message) from None
        return names, columns, len(columns[0]) if columns else 0

    def _of_width(self, reader: Any, broken: BrokenLines, width: int) -> Iterator[list[str]]:
        """Yield the rows that have this many cells; count the others as broken."""
        for cells in filter(None, reader):
            if len(cells) == width:
                yield cells
            else:
                broken.add(reader.line_num, f"{len(cells)} cells; expected {width}, as in the header")

    def _parquet(self) -> tuple[list[str], Sequence[Sequence[str] | _Nested], int]:
        try:
            import polars as pl
            from polars.exceptions import PanicException, PolarsError
        except ImportError:
            raise MissingExtra("reading Parquet", "data") from None
        try:
            with _hushed():
                frame = pl.read_parquet(io.BytesIO(self._source.data))
        except (PolarsError, OSError, PanicException) as problem:
            first = (str(problem).splitlines() or [""])[0]
            raise self._refused(None, f"cannot be read as Parquet: {first[:200]}") from None
        return frame.columns, [_texts(column) for column in frame.get_columns()], frame.height


def _separator(data: bytes) -> str:
    """Return the column separator: the most frequent candidate in the header, a comma if in doubt."""
    header = data.lstrip().partition(b"\n")[0]
    return max(",;\t|", key=lambda sign: header.count(sign.encode()))


@contextmanager
def _hushed() -> Iterator[None]:
    """Suppress what a library prints below Python: on a damaged file polars writes pages before it raises its error."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def _texts(column: Any) -> "list[str] | _Nested":
    """Return a polars column as texts of a CSV: whole floats without fraction or exponent."""
    import polars as pl

    if column.dtype.is_float() and column.is_between(-(2**62), 2**62).all() and (column.round() == column).all():
        column = column.cast(pl.Int64)
    if column.dtype.is_nested():
        return _Nested(str(column.dtype))
    try:
        texts: list[str] = column.cast(pl.String).fill_null("").to_list()
    except pl.exceptions.PolarsError:
        return _Nested(str(column.dtype))
    return texts


class _Lines:
    """Writes rows of CSV with the platform's line ends."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, row: str) -> None:
        self._out.write(f"{row[:-2]}\n")


def write_rows(out: TextIO, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    """Write the CSV that `Columns` reads. `out` must not translate line ends."""
    # A csv writer quotes a line end within a cell only if it equals its own.
    sheet = csv.writer(_Lines(out), lineterminator="\r\n")
    sheet.writerow(header)
    sheet.writerows(rows)
    out.flush()


def parquet_writer() -> Any:
    """Return the module polars. Raises MissingExtra."""
    try:
        import polars as pl
    except ImportError:
        raise MissingExtra("writing Parquet", "data") from None
    return pl


def write_columns(columns: Mapping[str, Any], path: str | Path) -> None:
    """Write polars Series as the columns of a Parquet file, in this order."""
    with written(path) as out:
        packed = io.BytesIO()  # polars does not report a full disk as such
        parquet_writer().DataFrame(columns).write_parquet(packed)
        out.write(packed.getbuffer())
