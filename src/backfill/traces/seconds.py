"""Convert times between seconds in files and microseconds in memory."""

import numpy as np

from backfill.model.schedule import NO_TIME
from backfill.model.units import SECOND, seconds_text
from backfill.model.workload import Floats, Ints


def to_micros(seconds: Floats) -> Ints:
    """Convert seconds to microseconds; exact for whole seconds, and for fractions below 2^33 s."""
    whole = np.floor(seconds)
    micros: Ints = whole.astype(np.int64) * SECOND + np.rint((seconds - whole) * SECOND).astype(np.int64)
    return micros


def seconds_texts(micros: Ints) -> list[str]:
    """Apply `units.seconds_text` to a column; empty text for NO_TIME."""
    texts = [str(second) for second in (micros // SECOND).tolist()]
    for row in np.flatnonzero(micros % SECOND).tolist():
        texts[row] = seconds_text(int(micros[row]))
    for row in np.flatnonzero(micros == NO_TIME).tolist():
        texts[row] = ""
    return texts
