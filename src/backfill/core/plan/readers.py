"""Whether anybody reads what a policy promises, for policies whose plans decide little and cost much."""

from backfill.compiler.wall import verb


@verb(within=True)
def are_promises_read(state):
    """Return whether promises are recorded: of all jobs, of a watched one, or in a journal."""
    return state.promises.recorded != 0 or state.promises.watched >= 0 or state.journal.kept != 0
