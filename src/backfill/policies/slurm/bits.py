"""Sets of nodes as bits, 64 nodes in a word: those of a partition, those that a plan leaves.

In array shapes w is words, m nodes, p partitions.
"""

import numpy as np
from numba import int64, uint64

from backfill.compiler.kernel import kernel
from backfill.compiler.record import record
from backfill.compiler.word import ones
from backfill.policies.slurm.queue import is_in, partition_count

NOTHING, ONE = np.uint64(0), np.uint64(1)
WORD = 64

SETS = [
    ("up", uint64[::1]),  # (w,): the nodes that have any capacity now
    ("of", uint64[:, ::1]),  # (p, w): those of them in each partition, once it has been looked up
    ("known", int64[::1]),  # (p,): 1 + the first partition that was looked up and has the same nodes; 0: not looked up
]
Sets, SetsT = record("Sets", SETS, globals())


@kernel(inline=True)
def words(nodes):
    """Return the number of words of a set of nodes."""
    return (nodes + WORD - 1) // WORD


@kernel(inline=True)
def has(bits, node):
    """Return whether a set has a node."""
    return (bits[node >> 6] >> np.uint64(node & 63)) & ONE != NOTHING


@kernel(inline=True)
def add(bits, node):
    """Add a node to a set."""
    bits[node >> 6] |= ONE << np.uint64(node & 63)


@kernel(inline=True)
def remove(bits, node):
    """Remove a node from a set."""
    bits[node >> 6] &= ~(ONE << np.uint64(node & 63))


@kernel(inline=True)
def size(bits):
    """Return the number of nodes of a set."""
    found = np.int64(0)
    for i in range(len(bits)):
        found += ones(bits[i])
    return found


@kernel(inline=True)
def remove_all(bits, others):
    """Remove the nodes from a set that another one has."""
    for i in range(len(bits)):
        bits[i] &= ~others[i]


@kernel(inline=True)
def copy_set(bits, others):
    """Write a set over another one, the second."""
    for i in range(len(bits)):
        others[i] = bits[i]


@kernel(inline=True)
def having_any(amounts, begin, end):
    """Return those of the nodes of a word, from `begin` to before `end`, that have any of these amounts (m, k)."""
    bits = NOTHING
    for k in range(amounts.shape[1]):
        for node in range(begin, end):
            bits |= np.uint64(amounts[node, k] > 0) << np.uint64(node & 63)
    return bits


@kernel()
def new_sets(state):
    """Return the sets of the nodes that are up and, so far empty, of the partitions."""
    nodes, parts = state.machine.nodes, partition_count(state)
    up = np.zeros(words(nodes), np.uint64)
    for i in range(len(up)):
        up[i] = having_any(state.machine.capacity, i * WORD, min((i + 1) * WORD, nodes))
    return Sets(up=up, of=np.empty((parts, len(up)), np.uint64), known=np.zeros(parts, np.int64))


@kernel()
def look_up(state, sets, part):
    """Write the nodes of a partition that are up to its row, if they are not there yet."""
    if sets.known[part] != 0:
        return
    up, of, packed = sets.up, sets.of, state.own.partition_sets
    for i in range(len(up)):
        bits = up[i]
        if len(packed) > 0:
            bits &= np.uint64(packed[part * len(up) + i])
        elif part > 0:
            for node in range(i * WORD, min((i + 1) * WORD, state.machine.nodes)):
                if not is_in(state, part, node):
                    bits &= ~(ONE << np.uint64(node & 63))
        of[part, i] = bits
    sets.known[part] = part + 1
    for other in range(len(sets.known)):
        if sets.known[other] == other + 1 and other != part and has_equal(of, part, other):
            sets.known[part] = other + 1
            return


@kernel(inline=True)
def has_equal(sets, one, other):
    """Return whether two rows of sets are equal."""
    for i in range(sets.shape[1]):
        if sets[one, i] != sets[other, i]:
            return False
    return True
