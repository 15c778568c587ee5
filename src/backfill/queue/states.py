"""The states of a job and the transitions between them: one table, drawn in the documentation."""

PENDING, STARTING, RUNNING, ENDING = "PENDING", "STARTING", "RUNNING", "ENDING"
COMPLETED, FAILED, TIMEOUT, CANCELLED = "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"
OUT_OF_MEMORY, DEADLINE, NODE_FAIL = "OUT_OF_MEMORY", "DEADLINE", "NODE_FAIL"

HOLDING = (STARTING, RUNNING, ENDING)  # an attempt of the job holds its resources
OVER = (COMPLETED, FAILED, TIMEOUT, CANCELLED, OUT_OF_MEMORY, DEADLINE, NODE_FAIL)
BY_ITSELF = (COMPLETED, FAILED, TIMEOUT, OUT_OF_MEMORY)  # ends caused by the job itself or its limits
NEW = ""  # before the job exists

# (state, event) -> the possible next states; the event says which if there are several.
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
    (STARTING, "spawned"): (RUNNING,),
    (ENDING, "spawned"): (ENDING,),
    (STARTING, "stop"): (ENDING,),
    (RUNNING, "stop"): (ENDING,),
    (RUNNING, "edit"): (RUNNING,),
    **{(RUNNING, event): (RUNNING,) for event in ("suspend", "resume", "signal")},
    **{(state, "preempt"): (ENDING,) for state in HOLDING},
    # a preempted job is in the policy's queue again while its attempt ends
    **{(ENDING, event): (ENDING,) for event in ("promise", "due", "withdrawn", "stop", "signal")},
    **{(state, "preempted"): (PENDING,) for state in HOLDING},
    **{(state, "unstarted"): (PENDING,) for state in HOLDING},
    **{(state, "requeue"): (PENDING,) for state in HOLDING},
    # a batch system tells how a job ended that was not seen to run; a job that is suspended is lost with its node
    **{(state, "end"): OVER for state in (PENDING, *HOLDING)},
}


def after(state: str, event: str, to: str = "") -> str:
    """Return the state after an event; to: the chosen one, if several are possible."""
    states = MOVES.get((state, event), ())
    target = to or (states[0] if len(states) == 1 else "")
    assert target in states, f"{event} of a job that is {state or 'not there'}, to {to or 'what follows'}"
    return target


def diagram() -> str:
    """Return the table as a Mermaid diagram; all states of a job that is over are one box."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, event), to in MOVES.items():
        over = all(each in OVER for each in to)
        target = "over" if over else to[0]
        label = event if to == OVER or not over else f"{event} ({', '.join(to)})"
        arrows.setdefault((state or "[*]", target), []).append(label)
    lines = [f"    {state} --> {to}: {', '.join(events)}" for (state, to), events in arrows.items()]
    return "\n".join(["stateDiagram-v2", f'    state "{", ".join(OVER)}" as over', *lines])
