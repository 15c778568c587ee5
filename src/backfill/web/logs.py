"""The output of a job over HTTP: whole, or the part that a client asks for by `Range`."""

import asyncio
import os
import re
import stat
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from backfill.web.problems import Refusal

PART, MOST = 1 << 16, 4 << 20  # bytes that are read at once; in an answer to a range
TYPE = "text/plain; charset=utf-8"


async def output(path: str, wanted: str | None, state: str) -> Response:
    """Return what is in a file now. wanted: the header Range; state: of the job, told in `Backfill-State`."""
    file = await asyncio.to_thread(opened, path)
    try:
        size = os.fstat(file).st_size
        headers = {"accept-ranges": "bytes", "backfill-state": state}
        begin, end = _span(wanted, size)
        if begin is None:
            # Without a length: the file may be cut short while it is sent.
            sent = StreamingResponse(_parts(file, size), headers=headers, media_type=TYPE)
            file = -1  # closed by the stream
            return sent
        if begin >= size:
            problem = f"the output has {size:,} bytes so far"
            refusal = Refusal(416, problem, "range", Content_Range=f"bytes */{size}", Backfill_State=state)
            raise refusal
        some = await asyncio.to_thread(os.pread, file, min(end - begin, MOST), begin)
        headers["content-range"] = f"bytes {begin}-{begin + len(some) - 1}/{size}"
        return Response(some, 206, headers, TYPE)
    finally:
        if file >= 0:
            os.close(file)


def opened(path: str) -> int:
    """Open the output of a job. Raises Refusal if there is none, or what is there is not an ordinary file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Refusal(404, "there is no output yet", "output") from None
    except OSError as error:
        raise Refusal(409, f"{path}: {error.strerror}", "output") from None
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise Refusal(409, f"{path} is not an ordinary file", "output")
    return file


def _span(wanted: str | None, size: int) -> tuple[int | None, int]:
    """Return the first byte and the end of a range; None for the whole, also if it is not understood."""
    match = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", (wanted or "").replace(" ", ""))
    if match is None or match[0] == "bytes=-":
        return None, size
    first, last = match.groups()
    if not first:
        return (max(size - int(last), 0), size) if int(last) else (size, size)
    if last and int(last) < int(first):
        return None, size
    return int(first), min(int(last) + 1, size) if last else size


async def _parts(file: int, size: int) -> AsyncIterator[bytes]:
    place = 0
    try:
        while place < size:
            some = await asyncio.to_thread(os.pread, file, min(PART, size - place), place)
            if not some:
                return
            place += len(some)
            yield some
    finally:
        os.close(file)
