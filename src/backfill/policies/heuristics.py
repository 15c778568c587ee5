"""The heuristics of the licence farm: terms of the priority of a waiting job, each with its formula.

Source: Baraglia, Capannini, Pasquali, Puppin, Ricci and Techiouba, Backfilling strategies for scheduling streams of
jobs on computational farms, CoreGRID 2007, section 4. Minimal Requirements has no term: it is the set of nodes that can
run the job, which `place` keeps to. ex is the walltime; times are seconds. docs/reference/heuristics.md explains each.
"""

from backfill.compiler.kernel import kernel


@kernel(inline=True)
def aging(wait, factor):
    """`factor * wait`: what keeps a job from waiting for ever."""
    return factor * wait


@kernel(inline=True)
def deadline(until, ex, k, low, high):
    """How near a job is to missing its deadline, which is `until` seconds away.

    `low` while it could end before the last k * ex seconds, rising to `high` where it can only just be met, and 0 where
    it is lost: with te = now + ex, over = k * ex and ts = dline - over, low + (high - low) / over * (te - ts) on
    ts <= te <= dline.
    """
    if ex > until:
        return 0.0
    if ex < until - k * ex:
        return low
    over = k * ex
    return high if over == 0.0 else low + (high - low) / over * (ex - (until - over))


@kernel(inline=True)
def licence(rho, d):
    """One licence of a job: `rho` = copies that waiting jobs ask for / copies there are, `d` times that where rho > 1.

    d is the number of licences that are asked for and not critical, at least 1, so that one critical licence counts for
    more than all the others together.
    """
    return d * rho if rho > 1.0 else rho


@kernel(inline=True)
def wait_minimisation(least, ex, boost):
    """`boost * least / ex`: shorter jobs first; `least` is the shortest walltime in the queue."""
    return boost if ex <= least else boost * least / ex
