"""The types of values that the tables of a platform TOML share, and the text form of names."""

import json
import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from backfill.model.constraint import is_name
from backfill.model.units import parse_size

AMOUNT = 'a whole number from 0 to 2^62 - 1, or a text with K, M, G or T such as "32G"'


def _size(value: Any) -> Any:
    """A text is a size only with its unit: `cpus = "8"` is a slip. Raises ValueError."""
    if not isinstance(value, str):
        return value
    if not any(c.isalpha() for c in value):
        raise ValueError
    return parse_size(value)


def plain(name: str) -> str:
    """The name, if a node, partition or licence may be called so. Raises ValueError."""
    if not is_name(name):
        raise ValueError
    return name


Amount = Annotated[int, BeforeValidator(_size), Field(ge=0, lt=2**62, description=AMOUNT)]
Name = Annotated[str, AfterValidator(plain)]


class Table(BaseModel):
    """Every field's description is what an error says was expected."""

    model_config = ConfigDict(strict=True, extra="forbid")


def key(name: str) -> str:
    """A name as a TOML key."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else quoted(name)


def quoted(text: str) -> str:
    """A text as a TOML string."""
    return json.dumps(text, ensure_ascii=False)
