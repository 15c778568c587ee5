"""Configuration texts for a site whose HTCondor jobs are started by a queue.

Without them a queue takes over jobs when it sees them, and HTCondor may start one earlier. With them jobs are guarded
from their submit on.
"""

from collections.abc import Sequence
from pathlib import Path

from backfill.pools import htcondor_pin as pins
from backfill.pools.marks import mark_of

ATTRIBUTES = (pins.QUEUE, pins.PIN, pins.BEFORE)
VANILLA = "JobUniverse == 5"
NAME = "Backfill"  # of the transform and of the submit requirement

SUBMIT = """\
# Where the schedd runs, a file in its config.d; then: condor_reconfig
# Jobs come guarded: only the queue in {home} starts them.
JOB_TRANSFORM_NAMES = $(JOB_TRANSFORM_NAMES) {name}
JOB_TRANSFORM_{name} @=end
  REQUIREMENTS {whose}
  COPY Requirements {before}
  SET {queue} "{mark}"
  SET Requirements ({guard}) && ($(MY.{before}))
@end
# Their users cannot change that.
PROTECTED_JOB_ATTRS = $(PROTECTED_JOB_ATTRS) {attributes}
SUBMIT_REQUIREMENT_NAMES = $(SUBMIT_REQUIREMENT_NAMES) {name}
SUBMIT_REQUIREMENT_{name} = {pin} is undefined
SUBMIT_REQUIREMENT_{name}_REASON = "{pin} is set by the queue that starts this job"
"""

MACHINES = """\
# On all machines that run jobs, after their own START; then: condor_reconfig
# A job of the queue starts where the queue says, even if its user has changed its requirements.
START = ($(START)) && (TARGET.{queue} is undefined || {guard})
# A dynamic slot ends with its job: reused for a smaller job, it would waste its remaining resources.
CLAIM_WORKLIFETIME = 0
"""

NEGOTIATOR = """\
# Where the negotiator runs; then: condor_reconfig
# It serves a pin within seconds; by default it waits for 20 s between two rounds.
NEGOTIATOR_MIN_INTERVAL = 1
NEGOTIATOR_CYCLE_DELAY = 1
"""

RIGHTS = """\
# The queue edits the jobs of all users, so its daemon must be condor@DOMAIN, or root on the machine of the schedd: a
# token for its own account does not suffice, even if that is among QUEUE_SUPER_USERS. As root there:
#   condor_token_create -identity condor@$(condor_config_val UID_DOMAIN) -token backfill
# and copy the file from the folder of tokens of root to that of {account}, {tokens}, readable by it alone.
"""


def htcondor_setup(home: Path, account: str = "backfill", users: Sequence[str] = ()) -> dict[str, str]:
    """Return the parts of an installation with HTCondor, by name; each says where it goes.

    home: the folder of the queue. account: the user who runs it. users: whose jobs it starts; empty for all users.
    """
    whose = f"{VANILLA} && {pins.QUEUE} is undefined"
    if users:
        names = ", ".join(f'"{name}"' for name in users)
        whose += f" && member(Owner, {{{names}}})"
    words = {
        "home": home, "name": NAME, "whose": whose, "mark": mark_of(home), "before": pins.BEFORE, "queue": pins.QUEUE,
        "pin": pins.PIN, "attributes": " ".join(ATTRIBUTES),
    }  # fmt: skip
    return {
        "submit": SUBMIT.format(guard=pins.OF_JOB, **words),
        "machines": MACHINES.format(guard=pins.OF_SLOT, **words),
        "negotiator": NEGOTIATOR,
        "rights": RIGHTS.format(account=account, tokens="~/.condor/tokens.d"),
    }
