"""JSON of logs: every error is a ValueError, and numbers may have any number of digits."""

import json
import re
from typing import Any

_DIGITS = 4000  # a whole number with more digits is read as infinite: Python accepts at most 4,300
_HALVES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def json_text(data: bytes) -> str:
    """Decode a file that may be JSON. Lone surrogates, which no text can hold, are replaced."""
    text = data.decode("utf-8", "replace")
    return _HALVES.sub(r"\\ufffd", text) if "\\ud" in text or "\\uD" in text else text


def value_at(text: str, place: int = 0) -> tuple[Any, int]:
    """Parse the value that begins at this position; also return where it ends. Raises ValueError."""
    try:
        return _DECODER.raw_decode(text, place)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) < _DIGITS else float(digits)


_DECODER = json.JSONDecoder(parse_int=_whole)
