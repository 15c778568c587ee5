"""Errors in the file of a policy, as one line that names it."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from backfill.compiler.users import NOT_YOURS
from backfill.core.policy import Policy
from backfill.model.errors import BackfillError, PolicyError, at


@contextmanager
def blaming(policy: Policy) -> Iterator[None]:
    """Let an error in the file of a policy become a PolicyError of one line."""
    try:
        yield
    except (BackfillError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a policy may raise SystemExit
        if (blamed := _blamed(policy, error)) is None:
            raise
        raise blamed from error


def _blamed(policy: Policy, error: BaseException) -> PolicyError | None:
    """Return a one-line error about the file of a policy; None if the error occurred elsewhere."""
    file = policy.code.co_filename if policy.code is not None else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    if not lines:
        return None
    if NOT_YOURS in str(error):
        return PolicyError(at(file, lines[-1], f"policy {policy.name}: {error}"))
    if "read-only" in str(error):  # raised by numpy for an array of the policy's view
        return PolicyError(at(file, lines[-1], f"policy {policy.name}: this array {NOT_YOURS}"))
    message = " ".join(f"policy {policy.name}: {type(error).__name__}: {error}".split())
    return PolicyError(at(file, lines[-1], message))
