"""Shows values in a notebook as small tables of HTML, with every text from outside escaped."""

from collections.abc import Callable, Iterable, Sequence
from html import escape

NAME_MAX = 200  # characters of a text that is shown
ROWS_MAX = 8  # of a long table


def shown(text: object) -> str:
    """A text as HTML: cut, escaped, in its own direction."""
    plain = str(text)
    return f"<bdi>{escape(plain if len(plain) <= NAME_MAX else plain[: NAME_MAX - 1] + '…')}</bdi>"


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table whose first column names the rows."""
    heads = "".join(f'<th scope="col">{shown(text)}</th>' for text in head)
    lines = "".join(
        f'<tr><th scope="row">{shown(first)}</th>{"".join(f"<td>{shown(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    top = f"<thead><tr>{heads}</tr></thead>" if head else ""
    return f"<table><caption>{shown(caption)}</caption>{top}<tbody>{lines}</tbody></table>"


def first_rows(caption: str, head: Sequence[str], rows: Callable[[int], Sequence[object]], count: int) -> str:
    """The first rows of a long table, and how many more there are. rows: the cells of one of the `count` rows."""
    shown_rows = [rows(row) for row in range(min(count, ROWS_MAX))]
    more = [f"and {count - ROWS_MAX:,} more"] if count > ROWS_MAX else []
    return table(caption, head, shown_rows) + paragraphs(more)


def text(lines: str) -> str:
    """A text of several lines as it stands."""
    return f"<pre>{escape(lines)}</pre>"


def paragraphs(texts: Iterable[str]) -> str:
    """Sentences, each a paragraph."""
    return "".join(f"<p>{shown(text)}</p>" for text in texts)
