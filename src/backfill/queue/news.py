"""What happened to jobs in a batch system in which they are submitted, as events of the queue that watches it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from backfill.pools.base import Arrived, Blocked, Edited, Expected, Gone
from backfill.queue import commands, events
from backfill.queue.book import Book
from backfill.queue.events import Event
from backfill.queue.job import NEVER, Job
from backfill.queue.shapes import Change
from backfill.queue.states import HOLDING, PENDING


def events_of(
    news: Arrived | Edited | Blocked | Expected | Gone,
    book: Book,
    spec: int,
    find: Callable[[Any], Job | None],
    never: Callable[[Job], str],
) -> Iterator[Event]:
    """The events that this is.

    spec: what jobs run of which the queue knows no command. find: a job by its number, or by that of its batch system
    and its submit there. never: why the platform cannot run a job.
    """
    if isinstance(news, Arrived):
        new = Job(**{**news.facts, "id": book.last_job + 1, "spec": spec})
        new.outside = bool(never(new))
        yield events.Submit(new.id, {**new.brief(), "id": new.id})
        if news.blocked or new.outside:
            yield events.Hold(new.id, news.blocked or NEVER)
        return
    job = find(news.job)
    if job is None:
        return
    match news:
        case Edited() if job.state == PENDING:
            outside = bool(never(replace(job, **news.to)))
            to: Change = {**news.to, "outside": outside} if outside != job.outside else news.to
            yield commands.edit_event(job, to)
            if outside != job.outside and job.held in ("", NEVER):
                yield events.Hold(job.id, NEVER) if outside else events.Release(job.id)
        case Edited() if job.state in HOLDING:
            yield commands.edit_event(job, news.to)
        case Blocked() if job.state == PENDING:
            why = news.why or (NEVER if job.outside else "")
            yield events.Hold(job.id, why) if why else events.Release(job.id)
        case Expected() if job.state == PENDING and job.expected is None:
            yield events.Expected(job.id, news.start)
        case Gone() if job.state == PENDING:
            yield events.End(job.id, news.state, news.reason, ended=news.ended)
