import sys
import time

from backfill import policy
from backfill.verbs import HEAD, head, place, start


@policy("slow", source="a test", compiled=False)
def slow(state):
    print("running", file=sys.stderr, flush=True)
    time.sleep(0.01)
    while head(state) >= 0 and place(state, head(state)):
        start(state, head(state), HEAD)
