"""Checks of `backfill doctor` for a queue that starts the jobs of an HTCondor.

They cover its rights, whether jobs come guarded, whether one can start past the queue, and the delay of starts.
"""

from collections.abc import Iterator, Mapping, Sequence

from backfill.client.finding import FAIL, OK, SETUP, WARN, Finding
from backfill.daemon.config import Config
from backfill.pools import htcondor_pin as pins
from backfill.pools.htcondor import HTCondorReader
from backfill.pools.htcondor_hands import HTCondorHands
from backfill.pools.htcondor_setup import ATTRIBUTES, NAME
from backfill.pools.marks import mark_of
from backfill.pools.seen import Down

MAY = ("condor", "root")  # accounts that may edit the jobs of other users
CYCLE_S = 5  # acceptable seconds between two cycles of the negotiator, for which a pin waits


def controlled(config: Config) -> Iterator[Finding]:
    """Yield the findings of all checks that depend on the batch system."""
    folder = config.file.parent
    reader = HTCondorReader(home=folder)
    hands = HTCondorHands(folder, reader)
    try:
        answer = hands.settings()
    except Down as down:
        yield Finding(WARN, "settings", f"the settings of HTCondor are not known: {down}", f"{SETUP} rights")
        return
    finally:
        hands.close()
    settings = answer["settings"]
    yield rights(answer["who"])
    yield handed(settings, mark_of(folder), config.adopt is not None)
    yield protected(settings)
    yield machines(answer["starts"])
    yield delay(settings)


def rights(who: str) -> Finding:
    """Check whether the schedd lets this account edit the jobs of all users."""
    if who.partition("@")[0] in MAY:
        return Finding(OK, "rights", f"{who} may edit all jobs of HTCondor")
    return Finding(
        FAIL, "rights", f"{who or 'an unknown user'} may not edit the jobs of others in HTCondor", f"{SETUP} rights"
    )


def handed(settings: Mapping[str, str], mark: str, adopts: bool) -> Finding:
    """Check how jobs come to the queue: guarded from their submit, or by adoption."""
    if mark in settings.get(f"JOB_TRANSFORM_{NAME}".upper(), ""):
        return Finding(OK, "submit", "new jobs are guarded for this queue")
    if adopts:
        what = "new jobs are not guarded; the queue adopts them, and HTCondor may start one before"
        return Finding(WARN, "submit", what, f"{SETUP} submit")
    return Finding(FAIL, "submit", "new jobs are not guarded, and the queue adopts none", f"{SETUP} submit")


def protected(settings: Mapping[str, str]) -> Finding:
    """Check whether users can remove guards."""
    names = settings.get("PROTECTED_JOB_ATTRS", "").replace(",", " ").lower().split()
    if free := [name for name in ATTRIBUTES if name.lower() not in names]:
        return Finding(WARN, "guards", f"users can change {', '.join(free)} of their jobs", f"{SETUP} submit")
    return Finding(OK, "guards", "users cannot move the guards of their jobs")


def machines(starts: Sequence[str]) -> Finding:
    """Check whether machines accept a job of the queue only where it is pinned."""
    if bare := sum(pins.PIN not in start for start in starts):
        what = f"{bare} of {len(starts)} slots accept jobs of the queue without a pin"
        return Finding(WARN, "machines", what, f"{SETUP} machines")
    return Finding(OK, "machines", "all machines accept jobs of the queue only where they are pinned")


def delay(settings: Mapping[str, str]) -> Finding:
    """Check how soon a pinned job starts."""
    seconds = settings.get("NEGOTIATOR_CYCLE_DELAY", "20")
    if seconds.isdecimal() and int(seconds) <= CYCLE_S:
        return Finding(OK, "delay", f"the negotiator waits for {seconds} s between two rounds")
    what = f"the negotiator waits for {seconds} s between two rounds, and each decision waits for the next one"
    return Finding(WARN, "delay", what, f"{SETUP} negotiator")
