"""Forms as browsers send them, bounded: to take one apart holds up all other clients."""

from urllib.parse import parse_qs

from fastapi import Request

from backfill.web.problems import Refusal

MOST, FIELDS = 512 << 10, 100  # bytes of a form: the longest argument of a program, escaped; fields


async def form_of(request: Request, most: int = MOST) -> dict[str, str]:
    """Return the fields of a form, of each its first value. Raises Refusal if it is longer than `most` bytes."""
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > most:
            raise Refusal(413, f"expected a form of at most {most:,} bytes", "size")
    try:
        form = parse_qs(b"".join(parts).decode(errors="replace"), max_num_fields=FIELDS)
    except ValueError:
        raise Refusal(400, f"expected a form of at most {FIELDS} fields", "usage") from None
    return {name: values[0] for name, values in form.items()}
