"""Turn the compiler's long error text about a policy into one line: the place of the mistake, and its cause."""

import re
import sysconfig
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from backfill.compiler import jit
from backfill.compiler.users import NOT_YOURS, REFUSED
from backfill.compiler.view import READABLE, Layout, readable

FOREIGN = tuple(sysconfig.get_path(key) for key in ("stdlib", "purelib", "platlib"))
HIDDEN = ("runtime", "run", "run_time", "end", "ends")  # names a user may try for run times, which the State hides

# new names of the fields that earlier versions had directly in the state
MOVED = {
    "nodes": "state.machine.nodes",
    "resources": "state.machine.resources",
    "submitted": "state.jobs.count",
    "licence_free": "state.free.licences",
    "running": "state.runs.by_limit (runs: state.runs.job[run] is the job)",
    "limit": "state.runs.limits",
    "start_time": "state.runs.start[state.runs.last[job]], where state.runs.last[job] is not -1",
    "reason": "state.runs.reason[state.runs.last[job]]",
    "promise": "state.promises.first",
    "licence_extra": "state.shadow.licences",
    "ended_jobs": "state.batch.ended (runs: state.runs.job[run] is the job)",
    "ended": "state.batch.ends",
    "overdue": "state.runs.limits, ascending: overdue are those up to state.now",
    "param": "state.own.NAME, by the name that @policy declares",
    "memory_i": "state.own.NAME, by the name that @policy declares",
    "memory_f": "state.own.NAME, by the name that @policy declares",
}

_PLACE = re.compile(r'File "([^"]+)", line (\d+):\ndef (\w+)')
_FIELD = re.compile(r"Unknown attribute '(\w+)' of type (View|Room\((\w+)\)|Own)")
_WRITE = re.compile(
    r"Cannot resolve setattr: \((View|Room\((\w+)\)|Own)[^\n]*?\)\.(\w+) = |Cannot modify readonly array"
)
_CALL = re.compile(r">>> (.+)")
_NO_CALL = re.compile(r"Invalid use of type\(CPUDispatcher\(<function (\w+) at \w+>\)\) with parameters (\(.*\))")
_NO_VERB = re.compile(r"no such call: (\w+)(\(.*\))")
_OPCODE = re.compile(r"unsupported opcode \((\w+)\) found\. Raised from (.+) \((\d+)\)")
_LITERAL = re.compile(r"Literal\[(\w+)\]\(([^)]*)\)")


def is_users(file: str) -> bool:
    """Return whether a source file is the user's own, belonging neither to this package nor to a library."""
    return not (is_ours(file) or file.startswith(("<string>", *FOREIGN)))


def is_ours(file: str) -> bool:
    """Return whether a source file belongs to this package."""
    return file.startswith(str(jit.PACKAGE / "x")[:-1])


def explain(name: str, decide: Callable[[Any], None], layout: Layout, text: str) -> str:
    """Return "file:line: cause" from the compiler's error text about the policy with this name and memory layout."""
    if match := _OPCODE.search(text):
        what = "compiled code cannot import; expected the import at the top of the file"
        if match[1] != "IMPORT_NAME":
            what = f"policy {name} does not compile: compiled code has no {match[1]}"
        return f"{match[2]}:{match[3]}: {what}"
    code = decide.__code__
    places = _PLACE.findall(text)  # innermost first
    own = [int(line) for file, line, _ in places if code.co_filename.endswith(file)]
    where = f"{code.co_filename}:{own[0] if own else code.co_firstlineno}"
    inside = f"in {places[0][2]}: " if places and not code.co_filename.endswith(places[0][0]) else ""
    return f"{where}: {_what(name, layout, text, inside)}"


def no_field(name: str, room: str, layout: Layout) -> str:
    """Return the message for a field that does not exist or that a policy may not read; room "" is the state itself."""
    place = f"state.{room}" if room else "state"
    if name in HIDDEN:
        return f"{place} has no field {name!r}: policies cannot see it; walltime is what the user asked for"
    if not room and name in MOVED:
        return f"state has no field {name!r}; it is now {MOVED[name]}"
    if room == "own":
        names = [named.name for named in layout]
        return f"state.own has no {name!r}; the policy declares: {', '.join(names) or 'nothing'}"
    known = readable(room) if room else ["now", *READABLE, "own"]
    others = {field: f"state.{each}.{field}" for each in READABLE for field in readable(each)}
    near = get_close_matches(name, known, 1)
    if not near and name in others:
        return f"{place} has no field {name!r}; did you mean {others[name]}?"
    hint = f"did you mean {near[0]}?" if near else f"fields: {', '.join(known)}"
    return f"{place} has no field {name!r}; {hint}"


def _what(name: str, layout: Layout, text: str, inside: str) -> str:
    if match := re.search(f"{REFUSED}([^\n]+)", text):
        return match[1]
    if match := _FIELD.search(text):
        return no_field(match[1], match[3] or ("own" if match[2] == "Own" else ""), layout)
    if match := _WRITE.search(text):
        room = f".{match[2]}" if match[2] else ".own" if match[1] == "Own" else ""
        return f"state{room}.{match[3]} {NOT_YOURS}" if match[3] else f"this array {NOT_YOURS}"
    if match := re.search(r"Untyped global name '(\w+)': .*'function'", text):
        return f"{match[1]} is a plain function; expected @kernel() above it"
    if "to none for '$" in text:
        return f"policy {name} returns a value; expected none"
    if match := re.search(r'"TypeError: (.+?)"', text):
        return f"policy {name} does not compile: {inside}{match[1]}"
    if match := _NO_CALL.search(text) or _NO_VERB.search(text):
        return f"policy {name} does not compile: no such call: {match[1]}{_LITERAL.sub(_as_written, match[2])}"
    if match := _CALL.search(text):
        call = _LITERAL.sub(_as_written, match[1])
        return f"policy {name} does not compile: {inside}no such operation as {call}"
    useful = (line.strip() for line in text.splitlines() if not line.startswith(("Failed in", "During", "File")))
    return f"policy {name} does not compile: {inside}{next(filter(None, useful), 'see --verbose')}"


def _as_written(literal: re.Match[str]) -> str:
    return repr(literal[2]) if literal[1] == "str" else literal[2]
