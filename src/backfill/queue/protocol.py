"""What is said between a queue and its planner: messages one way, decisions the other.

A message is a list: its kind and what belongs to it. A planner that is told all messages since the `epoch`, pass by
pass, decides what the one before it decided; that is how it is made anew.

submit job facts       a job is known
wait job               it is in the queue of the policy from now on
promised job start nodes    the same, and the planner before this one had promised it this start there
began job since why nodes   it runs since then, and another planner or somebody else started it
gone job how           it is in the queue no more, or runs no more
over job               it is never told of again
change job facts       its walltime or priority is another one; one that needs something else is submitted anew
taught job user project cpus submit walltime ran end    before the epoch this job had ended
kept job done how nodes    so much of its walltime is behind it, and it goes on so, or begins anew where that is empty;
                       nodes: where it was suspended, if the planner does not know that
capacity resources place    what the machine has, or a node, or how many copies there are of floating licences

What the policy did itself it is not told: it has started a job that is due, and a job that it preempted is in its queue
again, whatever becomes of the attempt that makes way.
"""

from dataclasses import dataclass, field
from typing import Any

from backfill.queue.job import PREEMPT, USUAL
from backfill.queue.shapes import Basis, Decisions

Message = list[Any]
# What a policy may know of a job, and what is usual.
FACTS = {
    name: USUAL[name]
    for name in (
        "need", "walltime", "grace", "priority", "user", "group", "project", "deadline",
        "tasks", "spread", "site", "constraint", "partition", "qos", "exclusive", "reservation",
    )
}  # fmt: skip
KEPT = ("done", "keeps", "stood")  # what a job has that keeps its progress
CALM = ("submit", "kept")  # messages after which there is nothing new to decide
WAITS = ("wait", "promised")  # messages by which a job joins the queue of the policy
LEARNED = 2_000  # ended jobs from which run times are known


def begun(epoch: Basis) -> list[Message]:
    """The messages for a new planner about that with which its epoch begins; runs in the order of their starts."""
    base = epoch["base"]
    running = sorted(
        (start, job, facts.get("why", ""), facts.get("nodes", [])) for job, facts, start in base if start is not None
    )
    return [
        *(["taught", *about] for about in epoch.get("ended", ())),
        *(["capacity", there, place] for place, there in epoch.get("nodes", {}).items()),
        *(["submit", job, facts] for job, facts, _ in base),
        *(["kept", job, *(facts[name] for name in KEPT)] for job, facts, _ in base if "keeps" in facts),
        *(["began", job, start, *about] for start, job, *about in running),
    ]


@dataclass
class Pass:
    """What a planner was told before a pass, and what it decided, as `decisions` has it."""

    now: int
    messages: list[Message]
    decided: list[list[Any]] = field(default_factory=list)


def decisions(answer: Decisions) -> list[list[Any]]:
    """What a planner decided: [job, PREEMPT, for which job] of each preemption, and how the job keeps its progress, and
    at which overhead; [job, why] of each start, and among nodes its placement."""
    return [*([job, PREEMPT, *more] for job, *more in answer["preempts"]), *answer["starts"]]
