"""News about jobs of a watched batch system, as events of the queue."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from backfill.pools.base import Arrived, Blocked, Edited, Expected, Foreign, Gone
from backfill.queue import commands, events, feed
from backfill.queue.book import Book
from backfill.queue.events import Event
from backfill.queue.job import FOREIGN, NEVER, Job
from backfill.queue.shapes import Change, Row, Spec
from backfill.queue.states import HOLDING, PENDING


def began(
    run: Foreign,
    book: Book,
    keep: Callable[[Spec], int],
    token: Callable[[Row, int], str],
    never: Callable[[Job], str],
) -> Iterator[Event]:
    """Yield the events of a run that the policy has not started, but an administrator or the pool.

    keep: stores the spec of a job, and returns its number. token: the token of a job of a batch system with these facts
    and this number. never: why the platform cannot run a job.
    """
    known = book.jobs.get(run.job)
    if (known is None and run.job) or (known is not None and known.state != PENDING):
        return
    if known is not None and known.due is not None:
        yield events.Withdrawn(run.job)
    number, attempt, row = run.job, known.attempts + 1 if known else 1, None
    if known is None:
        number = book.last_job + 1
        spec = keep(run.spec)
        row = {**run.facts, "spec": spec}
        row["token"] = token(run.facts, number) if "native" in row else f"{FOREIGN}-{number}"
        if "native" in row:
            row["outside"] = bool(never(Job(**{"id": number, **row})))
    facts, facts_now = known.facts() if known else row or {}, None
    if "native" in facts and (facts.get("exclusive") or facts.get("outside") or known is None):
        facts_now = feed.running_facts(facts, run.nodes, book.nodes)
    nodes = [[*each] for each in run.nodes]
    yield events.Began(number, attempt, run.since, FOREIGN, nodes, [], [], row, facts_now, run.record or None)


def events_of(
    news: Arrived | Edited | Blocked | Expected | Gone,
    book: Book,
    spec: int,
    find: Callable[[Any], Job | None],
    never: Callable[[Job], str],
) -> Iterator[Event]:
    """Yield the events of a piece of news.

    spec: for jobs whose command is unknown. find: returns a job by its number, or by its number and submit in the batch
    system. never: returns why the platform cannot run a job.
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
