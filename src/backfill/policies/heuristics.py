"""The heuristics of the licence farm: terms of the priority of a waiting job, each with its formula.

Source: Baraglia, Capannini, Pasquali, Puppin, Ricci and Techiouba, Backfilling strategies for scheduling streams of
jobs on computational farms, CoreGRID 2007, section 4. Minimal Requirements has no term: it is the set of nodes that can
run the job, which `place` respects. ex is the walltime; times are seconds. docs/reference/heuristics.md explains each.
"""

from backfill.compiler.kernel import kernel


@kernel(inline=True)
def aging(wait, factor):
    """Return `factor * wait`, which keeps a job from waiting for ever."""
    return factor * wait


@kernel(inline=True)
def deadline(until, ex, k, low, high):
    """Return how close a job is to missing its deadline, which is `until` seconds away.

    `low` while it could end before the last k * ex seconds, rising to `high` when it can only just be met, and 0 once
    it is missed: with te = now + ex, over = k * ex and ts = dline - over, low + (high - low) / over * (te - ts) on ts
    <= te <= dline.
    """
    if ex > until:
        return 0.0
    if ex < until - k * ex:
        return low
    over = k * ex
    return high if over == 0.0 else low + (high - low) / over * (ex - (until - over))


@kernel(inline=True)
def licence(rho, d):
    """Return the term of one licence of a job: `rho` = requested copies / existing copies, `d` times that if rho > 1.

    rho counts the copies that waiting jobs request. d is the number of requested licences that are not critical, at
    least 1, so that one critical licence counts for more than all the others together.
    """
    return d * rho if rho > 1.0 else rho


@kernel(inline=True)
def wait_minimisation(least, ex, boost):
    """Return `boost * least / ex`: shorter jobs first; `least` is the shortest walltime in the queue."""
    return boost if ex <= least else boost * least / ex
