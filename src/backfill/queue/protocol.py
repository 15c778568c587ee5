"""The protocol between a queue and its planner: messages one way, decisions the other.

A message is a list of its kind and its arguments. A planner that receives all messages since the `epoch`, pass by pass,
makes the same decisions as the one before it; this is how a planner is restarted.

submit job facts       a job is known
wait job               it is in the queue of the policy from now on
promised job start nodes    the same, and the planner before this one had promised it this start there
began job since why nodes   it has run since then, started by another planner or not by a policy
gone job how           it has left the queue, or has stopped running
over job               there will be no more messages about it
change job facts       its walltime or priority has changed; a job with another need is submitted again
taught job user project cpus submit walltime ran end    this job ended before the epoch
kept job done how nodes    it has used so much of its walltime, and continues so (how empty: it starts over);
                       nodes: where it was suspended, if the planner does not know that
capacity resources place    what the machine has, or a node, or the number of copies of floating licences

The planner is not told its own decisions: to it, a job that is due has started, and a job that it preempted is in its
queue again, whatever becomes of the attempt that is being ended.
"""

from dataclasses import dataclass, field
from typing import Any

from backfill.queue.job import PREEMPT, USUAL
from backfill.queue.shapes import Basis, Decisions

Message = list[Any]
# Facts of a job that a policy may know, with their defaults.
FACTS = {
    name: USUAL[name]
    for name in (
        "need", "walltime", "grace", "priority", "user", "group", "project", "deadline",
        "tasks", "spread", "site", "constraint", "partition", "qos", "exclusive", "reservation",
    )
}  # fmt: skip
KEPT = ("done", "keeps", "stood")  # facts of a job that keeps its progress
CALM = ("submit", "kept")  # messages after which no new decision is needed
WAITS = ("wait", "promised")  # messages by which a job joins the queue of the policy
LEARNED = 2_000  # number of ended jobs from which run times are learned
PLANNED = 20_000  # bars of each kind in a plan, at most
BARS = ("past", "running", "pending")  # these kinds
ESTIMATED = 2_000  # most pending jobs with an estimate
FEW = 9  # with fewer, no run time among them bounds the next one in nine of ten cases, so its walltime does


def begun(epoch: Basis) -> list[Message]:
    """Return the messages that tell a new planner the beginning of its epoch; runs in the order of their starts."""
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
    """The messages to a planner before a pass, and its decisions, as returned by `decisions`."""

    now: int
    messages: list[Message]
    decided: list[list[Any]] = field(default_factory=list)


def decisions(answer: Decisions) -> list[list[Any]]:
    """Return a planner's decisions: preemptions, then starts.

    [job, PREEMPT, on whose behalf], then how the job keeps its progress and the overhead; [job, why], then its
    placement among nodes.
    """
    return [*([job, PREEMPT, *more] for job, *more in answer["preempts"]), *answer["starts"]]
