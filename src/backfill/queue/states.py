"""The states of a job, and which event leads from which to which: one table, drawn in the documentation."""

PENDING, STARTING, RUNNING, ENDING = "PENDING", "STARTING", "RUNNING", "ENDING"
COMPLETED, FAILED, TIMEOUT, CANCELLED = "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"
OUT_OF_MEMORY, DEADLINE, NODE_FAIL = "OUT_OF_MEMORY", "DEADLINE", "NODE_FAIL"

HOLDING = (STARTING, RUNNING, ENDING)  # an attempt of the job holds what it asked for
OVER = (COMPLETED, FAILED, TIMEOUT, CANCELLED, OUT_OF_MEMORY, DEADLINE, NODE_FAIL)
BY_ITSELF = (COMPLETED, FAILED, TIMEOUT, OUT_OF_MEMORY)  # ends that nobody but the job and its limits brought about
NEW = ""  # of a job that is not there yet

# (state, event) -> the states that may follow; the event says which where there are several.
MOVES: dict[tuple[str, str], tuple[str, ...]] = {
    (NEW, "submit"): (PENDING,),
    **{(state, "adopted"): (STARTING,) for state in (NEW, PENDING, *HOLDING)},
    (PENDING, "wait"): (PENDING,),
    (PENDING, "hold"): (PENDING,),
    (PENDING, "release"): (PENDING,),
    (PENDING, "edit"): (PENDING,),
    (PENDING, "promise"): (PENDING,),
    (PENDING, "advised"): (PENDING,),
    (PENDING, "expected"): (PENDING,),
    (PENDING, "due"): (PENDING,),
    (PENDING, "withdrawn"): (PENDING,),
    (PENDING, "preempt"): (PENDING,),
    (PENDING, "kept"): (PENDING,),
    (PENDING, "start"): (STARTING,),
    **{(state, event): (state,) for state in (PENDING, *HOLDING) for event in ("declined", "spared")},
    **{(state, "began"): (RUNNING,) for state in (NEW, PENDING)},
    (PENDING, "end"): (CANCELLED, DEADLINE, NODE_FAIL),  # the last of one that was suspended on a node
    (STARTING, "spawned"): (RUNNING,),
    (ENDING, "spawned"): (ENDING,),
    (STARTING, "stop"): (ENDING,),
    (RUNNING, "stop"): (ENDING,),
    (RUNNING, "edit"): (RUNNING,),
    **{(RUNNING, event): (RUNNING,) for event in ("suspend", "resume", "signal")},
    **{(state, "preempt"): (ENDING,) for state in HOLDING},
    # what makes way is in the policy's queue again, while its attempt ends
    **{(ENDING, event): (ENDING,) for event in ("promise", "due", "withdrawn", "stop", "signal")},
    **{(state, "preempted"): (PENDING,) for state in HOLDING},
    **{(state, "unstarted"): (PENDING,) for state in HOLDING},
    **{(state, "requeue"): (PENDING,) for state in HOLDING},
    **{(state, "end"): OVER for state in HOLDING},
}


def after(state: str, event: str, to: str = "") -> str:
    """The state that follows an event; to: which, where the event leaves a choice."""
    some = MOVES.get((state, event), ())
    found = to or (some[0] if len(some) == 1 else "")
    assert found in some, f"{event} of a job that is {state or 'not there'}, to {to or 'what follows'}"
    return found


def diagram() -> str:
    """The table as a Mermaid diagram; all states of a job that is over are one box."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, event), to in MOVES.items():
        over = all(each in OVER for each in to)
        target = "over" if over else to[0]
        label = event if to == OVER or not over else f"{event} ({', '.join(to)})"
        arrows.setdefault((state or "[*]", target), []).append(label)
    lines = [f"    {state} --> {to}: {', '.join(events)}" for (state, to), events in arrows.items()]
    return "\n".join(["stateDiagram-v2", f'    state "{", ".join(OVER)}" as over', *lines])
