"""Value types shared by the tables of a platform TOML, and the text form of names."""

import json
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from backfill.model.constraint import is_name
from backfill.model.units import parse_size

AMOUNT = 'a whole number from 0 to 2^62 - 1, or a text with K, M, G or T such as "32G"'


def _size(value: Any) -> Any:
    """Refuse a size without a unit in quotes: `cpus = "8"` is a mistake. Raises ValueError."""
    if not isinstance(value, str):
        return value
    if not any(c.isalpha() for c in value):
        raise ValueError
    return parse_size(value)


def plain(name: str) -> str:
    """Return the name if a node, partition or licence may have it. Raises ValueError."""
    if not is_name(name):
        raise ValueError
    return name


Amount = Annotated[int, BeforeValidator(_size), Field(ge=0, lt=2**62, description=AMOUNT)]
Name = Annotated[str, AfterValidator(plain)]


class Table(BaseModel):
    """A table of the file. Errors quote a field's description as what was expected."""

    model_config = ConfigDict(strict=True, extra="forbid")


def key(name: str) -> str:
    """Return a name as a TOML key."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def quoted(text: str) -> str:
    """Return a text as a TOML string."""
    return json.dumps(text, ensure_ascii=False)
