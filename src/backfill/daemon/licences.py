"""Licences whose server reports how many copies exist and are in use, by a command of the user's."""

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
    """A licence with a server. Copies used by others are not available."""

    name: str
    command: list[str]
    every_s: float
    timeout_s: float
    margin: int = 0  # copies that are always left to others
    copies: int = 0  # as last reported
    others: int = 0
    failures: int = 0  # in a row
    problem: str = field(default="")

    @property
    def ours(self) -> int:
        """The copies that jobs of the queue may have."""
        return max(self.copies - self.others - self.margin, 0)

    def hear(self, text: str, held: int) -> None:
        """Process the output of the command; held: copies that jobs of the queue hold. Raises ValueError."""
        copies, used = counts(text, self.name)
        self.copies, self.others = copies, max(used - held, 0)
        self.failures, self.problem = 0, ""

    def fail(self, why: str) -> None:
        """Record a failure of the command; the last report remains valid."""
        self.failures, self.problem = self.failures + 1, why


def counts(text: str, name: str) -> tuple[int, int]:
    """Return the copies in all and in use, from a line `NAME TOTAL USED`. Raises ValueError."""
    for line in text.splitlines():
        match = re.fullmatch(r"\s*(\S+)\s+(\d{1,9})\s+(\d{1,9})\s*", line)
        if match and match[1] == name:
            return int(match[2]), int(match[3])
    raise ValueError(f"printed no line `{name} TOTAL USED`")


async def ask(licence: Licence) -> str:
    """Return the output of the command. Raises ValueError, which says how it failed."""
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
    output = b""
    while part := await stream.read(OUTPUT_MAX):
        output += part
        if len(output) > OUTPUT_MAX:
            raise ValueError(f"it printed more than {OUTPUT_MAX >> 10} KiB")
    return output


async def keep_asking(
    licence: Licence, held: Callable[[], int], reported: Callable[[], None], wait: Callable[[float], Awaitable[None]]
) -> None:
    """Run the command again and again; `reported` is called after each report."""
    while True:
        before = held()
        try:
            text = await ask(licence)
            # The held copies may have changed while the command ran: with the smaller number, more count as used by
            # others.
            licence.hear(text, min(before, held()))
        except ValueError as error:
            licence.fail(str(error))
        reported()
        await wait(licence.every_s)
