"""Licences whose server tells how many copies are there and in use, by a command of the user's."""

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

OUTPUT_MAX = 64 << 10


@dataclass
class Licence:
    """One that is asked about. What others use of it is not ours to give."""

    name: str
    command: list[str]
    every_s: float
    timeout_s: float
    margin: int = 0  # copies that are left to others in any case
    copies: int = 0  # as last told
    others: int = 0
    failures: int = 0  # in a row
    problem: str = field(default="")

    @property
    def ours(self) -> int:
        """The copies that jobs of the queue may have."""
        return max(self.copies - self.others - self.margin, 0)

    def hear(self, text: str, held: int) -> None:
        """Take in what the command printed; held: copies that our jobs hold. Raises ValueError."""
        copies, used = counts(text, self.name)
        self.copies, self.others = copies, max(used - held, 0)
        self.failures, self.problem = 0, ""

    def fail(self, why: str) -> None:
        """The command failed: what it said last stays."""
        self.failures, self.problem = self.failures + 1, why


def counts(text: str, name: str) -> tuple[int, int]:
    """Copies in all and in use, from a line `NAME TOTAL USED`. Raises ValueError."""
    for line in text.splitlines():
        match = re.fullmatch(r"\s*(\S+)\s+(\d{1,9})\s+(\d{1,9})\s*", line)
        if match and match[1] == name:
            return int(match[2]), int(match[3])
    raise ValueError(f"printed no line `{name} TOTAL USED`")


async def ask(licence: Licence) -> str:
    """What the command prints. Raises ValueError, which says how it failed."""
    try:
        made = await asyncio.create_subprocess_exec(
            *licence.command, stdin=DEVNULL, stdout=PIPE, stderr=DEVNULL, start_new_session=True
        )
    except OSError as error:
        raise ValueError(f"{licence.command[0]}: {error.strerror}") from None
    assert made.stdout is not None
    try:
        text = await asyncio.wait_for(_all_of(made.stdout), licence.timeout_s)
        code = await asyncio.wait_for(made.wait(), licence.timeout_s)
    except TimeoutError:
        raise ValueError(f"{licence.command[0]} took longer than {licence.timeout_s:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(made.pid, signal.SIGKILL)
        await made.wait()
    if code:
        raise ValueError(f"{licence.command[0]} failed with exit code {code}")
    return text.decode(errors="replace")


async def _all_of(stream: asyncio.StreamReader) -> bytes:
    found = b""
    while some := await stream.read(OUTPUT_MAX):
        found += some
        if len(found) > OUTPUT_MAX:
            raise ValueError(f"it printed more than {OUTPUT_MAX >> 10} KiB")
    return found


async def keep_asking(
    licence: Licence, held: Callable[[], int], told: Callable[[], None], wait: Callable[[float], Awaitable[None]]
) -> None:
    """Ask again and again; `told` is called after each answer."""
    while True:
        before = held()
        try:
            text = await ask(licence)
            # What we hold may have changed while it was asked: the lesser number counts more as others'.
            licence.hear(text, min(before, held()))
        except ValueError as error:
            licence.fail(str(error))
        told()
        await wait(licence.every_s)
