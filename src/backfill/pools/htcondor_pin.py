"""How a job of HTCondor is kept from starting, and let go on one slot: by attributes of the job.

A job that a queue starts has an expression before its requirements that holds nowhere until the job is pinned. A pin
names a slot and how many starts the job has behind it, so it holds for one start alone: HTCondor itself does not start
such a job a second time, whatever becomes of the first. Users' own holds, and their expressions that release held jobs,
have nothing to do with it.
"""

QUEUE, PIN, BEFORE = "BFQueue", "BFTarget", "BFRequirements"  # its queue, where it may start, what its user requires
STARTS = "NumShadowStarts"
COMMENT = "BFComment"  # for its user to read
PICKY = "BFPicky"  # what our client says of a job: it does not take every node that has room for it
# The name of a slot without the number of a part: slot1@n7 of slot1_3@n7. Settings and edits read backslashes
# in two ways, so there is none.
HERE = 'replace("_[0-9]+@", {slot}, "@")'
OF_JOB = f'MY.{PIN} =?= strcat(string(MY.{STARTS} ?: 0), " ", {HERE.format(slot="TARGET.Name")})'
# A machine is asked again once a start has been counted.
OF_SLOT = f'replace("^[0-9]+ ", TARGET.{PIN}, "") =?= {HERE.format(slot="MY.Name")}'


def guarded(requirements: str) -> str:
    """Requirements that hold where the job is pinned, if these do."""
    return f"({OF_JOB}) && ({requirements or 'true'})"


def is_guarded(requirements: str) -> bool:
    """Whether these requirements are such, in whatever way they are written."""
    return f"{PIN} =?= strcat(" in requirements or f"{PIN} is strcat(" in requirements


def pin(starts: int, slot: str) -> str:
    """That a job with so many starts behind it may start on a slot."""
    return f"{starts} {slot}"


def is_pinned(target: object, starts: int) -> bool:
    """Whether a job with this attribute and so many starts behind it may start by now."""
    return isinstance(target, str) and target.partition(" ")[0] == str(starts)
