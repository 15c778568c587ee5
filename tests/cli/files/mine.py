from backfill import Param, policy
from backfill.verbs import (
    BACKFILL,
    HEAD,
    candidate,
    head,
    kernel,
    place,
    place_beside,
    reserve,
    rewind,
    shadow_time,
    start,
    use_extra,
)

SECOND = 1_000_000


@kernel()
def start_heads(state):
    job = head(state)
    while job >= 0 and place(state, job):
        start(state, job, HEAD)
        job = head(state)
    return job


@policy("mine", source="a test", fill="short jobs only", params={"short": Param(1e6, 0, 1e9, "s", "longest candidate")})
def mine(state):
    """EASY that only lets short jobs go ahead."""
    first = start_heads(state)
    if first < 0:
        return
    shadow = shadow_time(state, first)
    reserve(state, first, shadow)
    rewind(state, 0)
    job = candidate(state, 0, shadow - state.now)
    while job >= 0:
        if state.jobs.walltime[job] <= state.own.short * SECOND and place_beside(state, job, shadow - state.now):
            start(state, job, BACKFILL)
            if state.jobs.walltime[job] > shadow - state.now:
                use_extra(state, job)
        job = candidate(state, 0, shadow - state.now)


@policy("plain", source="a test", compiled=False)
def plain(state):
    start_heads(state)


@policy("rude", source="a test", compiled=False)
def rude(state):
    """Starts whoever is first, room or no room."""
    start(state, head(state), HEAD)


def forgotten(state):
    start_heads(state)
