"""Show values in a notebook as small HTML tables, with every external text escaped."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

NAME_MAX = 200  # characters of a shown text
ROWS_MAX = 8  # of a long table


def shown(text: object) -> str:
    """Format a text as HTML: cut, escaped, isolated in its text direction."""
    plain = str(text)
    return f"<bdi>{escape(plain if len(plain) <= NAME_MAX else plain[: NAME_MAX - 1] + '…')}</bdi>"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table whose first column names the rows."""
    heads = "".join(f'<th scope="col">{shown(text)}</th>' for text in head)
    lines = "".join(
        f'<tr><th scope="row">{shown(first)}</th>{"".join(f"<td>{shown(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    top = f"<thead><tr>{heads}</tr></thead>" if head else ""
    return f"<table><caption>{shown(caption)}</caption>{top}<tbody>{lines}</tbody></table>"


def first_rows(caption: str, head: Sequence[str], rows: Callable[[int], Sequence[object]], count: int) -> str:
    """Return the first rows of a long table, and the number of the rest. rows: returns the cells of one row."""
    shown_rows = [rows(row) for row in range(min(count, ROWS_MAX))]
    more = [f"and {count - ROWS_MAX:,} more"] if count > ROWS_MAX else []
    return table(caption, head, shown_rows) + paragraphs(more)


def text(lines: str) -> str:
    """Format a text of several lines, preformatted."""
    return f"<pre>{escape(lines)}</pre>"


def paragraphs(texts: Iterable[str]) -> str:
    """Format each sentence as a paragraph."""
    return "".join(f"<p>{shown(text)}</p>" for text in texts)
