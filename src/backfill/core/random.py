"""The only source of randomness of a policy: a counter-based generator with its seed and counter in the State.

Therefore live, stepping, compiled and replayed runs draw the same numbers. splitmix64: Steele, Lea and Flood, OOPSLA
2014.
"""

import numpy as np
from numba import uint64

from backfill.compiler import jit
from backfill.compiler.kernel import kernel
from backfill.compiler.wall import verb
from backfill.core.errors import NO_CHOICE, NONE, fail

GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
MOST = 2**32
word = (lambda x: int(x) & 0xFFFF_FFFF_FFFF_FFFF) if jit.PLAIN else uint64  # Python integers do not wrap around


@kernel()
def mix(seed, count):
    """Return the count-th 64-bit word of a seed, from 0."""
    z = word(word(seed) + word(word(count + 1) * word(GOLDEN)))
    z = word((z ^ (z >> word(30))) * word(FIRST))
    z = word((z ^ (z >> word(27))) * word(SECOND))
    return z ^ (z >> word(31))


@verb()
def pick(state, n):
    """Return a random integer from 0 to n - 1, for n up to 2**32, each equally likely to within 2**-32.

    Draws one number.
    """
    if n < 1 or n > MOST:
        fail(state, NO_CHOICE, NONE, NONE, n, NONE)
        return np.int64(0)
    z = mix(state.own.random[0], np.int64(state.own.random[1]))
    state.own.random[1] += np.uint64(1)
    return np.int64(((z >> word(32)) * word(n)) >> word(32))
