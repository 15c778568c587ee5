"""Sets of nodes as bits, 64 nodes in a word: those of a partition, those that a plan leaves.

In array shapes w is words, m nodes, p partitions.
"""

import numpy as np

from backfill.compiler.kernel import kernel
from backfill.policies.slurm.queue import is_in, is_up

NOTHING, ONE = np.uint64(0), np.uint64(1)
WORD = 64
PRIME = 67  # by which the 64 powers of two leave different remainders
POWERS = np.zeros(PRIME, np.int64)  # the exponent of the power of two with each of them
POWERS[[2**i % PRIME for i in range(WORD)]] = np.arange(WORD)


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
def ones(word):
    """Return the number of nodes in a word."""
    x = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    x += x >> np.uint64(8)
    x += x >> np.uint64(16)
    x += x >> np.uint64(32)
    return np.int64(x & np.uint64(127))


@kernel(inline=True)
def lowest(word):
    """Return the number of the first node in a word that has one."""
    return POWERS[(word & (~word + ONE)) % np.uint64(PRIME)]


@kernel()
def size(bits):
    """Return the number of nodes of a set."""
    found = np.int64(0)
    for i in range(len(bits)):
        found += ones(bits[i])
    return found


@kernel()
def keep_common(bits, others):
    """Remove the nodes from a set that another one has not."""
    for i in range(len(bits)):
        bits[i] &= others[i]


@kernel()
def remove_all(bits, others):
    """Remove the nodes from a set that another one has."""
    for i in range(len(bits)):
        bits[i] &= ~others[i]


@kernel()
def up_nodes(state):
    """Return the nodes that have any capacity now."""
    bits = np.zeros(words(state.machine.nodes), np.uint64)
    for node in range(state.machine.nodes):
        if is_up(state, node):
            add(bits, node)
    return bits


@kernel()
def nodes_of(state, part, up, sets, known):
    """Return the nodes of a partition that are up. sets (p, w), known (p,): what has been looked up already."""
    bits = sets[part]
    if known[part] == 0:
        known[part] = 1
        bits[:] = NOTHING
        for node in range(state.machine.nodes):
            if is_in(state, part, node):
                add(bits, node)
        keep_common(bits, up)
    return bits
