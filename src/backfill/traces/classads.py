"""ClassAds of HTCondor, in long form or as JSON.

Source: the HTCondor manual, "HTCondor's ClassAd Mechanism", and condor_history, options -long and -json.
"""

from collections.abc import Iterator
from typing import Any

from backfill.traces.json_values import value_at

_WORDS = {"true": True, "false": False, "undefined": None, "error": None}


def ads_of(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each ad with its first line: numbers, booleans and strings by value, expressions as texts.

    JSON may be an array, consecutive objects, or one object per line. Raises ValueError otherwise.
    """
    if text.lstrip()[:1] in ("[", "{"):
        yield from _of_json(text)
        return
    begin, ad = 0, dict[str, Any]()
    for line, row in enumerate([*text.split("\n"), ""], start=1):
        name, equals, value = row.partition(" = ")
        if equals and name.strip().isidentifier():
            begin = begin or line
            ad[name.strip()] = _value(value.strip())
        elif ad and (not row.strip() or row.startswith("***")):  # history files end each ad with a line of ***
            yield begin, ad
            begin, ad = 0, {}


def _of_json(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    place, line = 0, 1
    while place < len(text):
        if text[place] in " \t\r\n,[]":  # between ads, in an array or not
            line += text[place] == "\n"
            place += 1
            continue
        ad, end = value_at(text, place)
        if not isinstance(ad, dict):
            raise ValueError(f"line {line} is {text[place:end][:60]!r}; expected a ClassAd")
        yield line, ad
        line += text.count("\n", place, end)
        place = end


def _value(text: str) -> Any:
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
