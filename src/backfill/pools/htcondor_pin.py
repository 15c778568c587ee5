"""Pins: attributes that keep a job of HTCondor from starting, and release it on one slot.

A job that a queue starts has an expression in front of its requirements that is false everywhere until the job is
pinned. A pin names a slot and the number of previous starts, so it is valid for one start only: HTCondor does not start
such a job a second time by itself, whatever happens to the first attempt. Holds by users, and their expressions that
release held jobs, remain independent of it.
"""

QUEUE, PIN, BEFORE = "BFQueue", "BFTarget", "BFRequirements"  # its queue, its pin, its user's requirements
STARTS = "NumShadowStarts"
COMMENT = "BFComment"  # readable by its user
PICKY = "BFPicky"  # set by our client: the job does not accept every node with enough free resources
# The name of a slot without the number of a dynamic part: slot1@n7 for slot1_3@n7. Settings and edits treat
# backslashes differently, so the expression has none.
HERE = 'replace("_[0-9]+@", {slot}, "@")'
OF_JOB = f'MY.{PIN} =?= strcat(string(MY.{STARTS} ?: 0), " ", {HERE.format(slot="TARGET.Name")})'
# The machine evaluates this again after a start has been counted.
OF_SLOT = f'replace("^[0-9]+ ", TARGET.{PIN}, "") =?= {HERE.format(slot="MY.Name")}'


def guarded(requirements: str) -> str:
    """Return requirements that are true only where the job is pinned and the given ones are true."""
    return f"({OF_JOB}) && ({requirements or 'true'})"


def is_guarded(requirements: str) -> bool:
    """Return whether requirements contain the guard, in any notation."""
    return f"{PIN} =?= strcat(" in requirements or f"{PIN} is strcat(" in requirements


def pin(starts: int, slot: str) -> str:
    """Return the pin that lets a job with this number of previous starts start on a slot."""
    return f"{starts} {slot}"


def is_pinned(target: object, starts: int) -> bool:
    """Return whether a job with this pin and this number of previous starts may start now."""
    return isinstance(target, str) and target.partition(" ")[0] == str(starts)
