"""Initial States: of a platform, or of a whole log that is to be run on it."""

from dataclasses import replace
from typing import Any

from backfill.core.batch import new_batch
from backfill.core.entry import Entry, Room
from backfill.core.jobs import new_jobs
from backfill.core.journal import new_journal
from backfill.core.machine import new_free, new_machine, new_placed
from backfill.core.own import new_own
from backfill.core.place.scratch import new_scratch
from backfill.core.place.shapes import new_shapes
from backfill.core.plan.bookings import new_bookings
from backfill.core.plan.later import new_later
from backfill.core.plan.plan import new_plan
from backfill.core.plan.promises import NO_TIME, new_promises
from backfill.core.plan.search import new_search
from backfill.core.plan.shadow import new_shadow
from backfill.core.policy import Facts, Policy
from backfill.core.projects import new_projects
from backfill.core.queue.places import new_queue
from backfill.core.runs import new_runs
from backfill.core.state import State
from backfill.core.trace import new_trace
from backfill.model.platform import Platform
from backfill.model.workload import Floats, Ints, Jobs


def new_state(
    platform: Platform,
    policy: Policy,
    params: Floats,
    room: Room,
    *,
    sizes: Ints,
    seed: int = 0,
    watched: int = -1,
    recorded: bool = False,
    journal: bool = False,
    facts: Facts | None = None,
) -> Any:
    """Return a State that knows no job yet, and in which nothing has happened.

    room: the capacity for the jobs of an Entry; no accounts if no limit counts running jobs. sizes: expected needs of
    the first resource, for speed only. watched: the job whose promises are recorded; recorded: whether those of all
    jobs are. journal: whether one is kept. facts: what the policy knows of the jobs to come; None if that is nothing.
    """
    facts = policy.prepared(params, platform) if facts is None else facts
    n, (nodes, k), licences = room.rows, platform.capacity.shape, len(platform.licences)
    counted, pool = licences + room.accounts, platform.is_pool and not room.accounts
    shapes = 0 if pool else room.shapes
    machine = new_machine(platform, pool, room.accounts)
    sites, targets = len(platform.sites), len(platform.targets)
    lengths = policy.lengths(facts.memory, jobs=n, licences=licences, nodes=nodes, sites=sites, targets=targets)
    second = policy.preempts or (policy.booked and not pool)
    plan, *other = (new_plan(platform, pool, n, machine.base_copies, shapes, sizes) for _ in range(1 + second))
    return State(
        now=NO_TIME,
        jobs=new_jobs(n, k, pool),
        machine=machine,
        free=new_free(platform, machine.copies, new_shapes(platform, shapes)),
        runs=new_runs(
            n,
            k,
            pool,
            policy.preempts,
            policy.dangles,
            policy.sharing(dict(zip(policy.params, params.tolist(), strict=False))),
        ),
        queue=new_queue(n, k, shapes, policy.orders, policy.index, policy.dynamic, room.accounts > 0),
        placed=new_placed(nodes),
        shadow=new_shadow(nodes, k, counted),
        later=new_later(nodes, k, counted, len(platform.sites)),
        plan=plan,
        other=other[0] if other else plan,
        projects=new_projects(n),
        promises=new_promises(n, watched, recorded),
        bookings=new_bookings(n, k, policy.booked),
        batch=new_batch(),
        own=_own(platform, policy, facts, lengths, seed),
        search=new_search(nodes, len(platform.sites)),
        scratch=new_scratch(nodes, k, counted),
        journal=new_journal(journal),
        trace=new_trace(),
    )


def _own(platform: Platform, policy: Policy, facts: Facts, lengths: tuple[list[int], list[int]], seed: int) -> Any:
    """Return the policy's own room, with its facts and the targets that the platform has for single names."""
    own = new_own(facts.params, *lengths, seed)
    for names, memory, at in (
        (policy.memory, own.memory_int, own.at_int),
        (policy.memory_f, own.memory_float, own.at_float),
    ):
        for place, name in enumerate(names):
            if name in facts.memory:
                memory[at[place] : at[place + 1]] = facts.memory[name]
    for place, (name, size) in enumerate(policy.memory_f.items()):
        if size == "targets":
            given = [*platform.targets_of(name.removesuffix("_target")).values()]
            begin, end = own.at_float[place : place + 2]
            own.memory_float[begin:end] = -1.0
            own.memory_float[begin : begin + len(given)] = given
    return own


def without_accounts(platform: Platform, licences: int) -> Platform:
    """Return the platform with only the first `licences` licences; those behind them are accounts of limits."""
    return replace(
        platform,
        licences=platform.licences[:licences],
        copies=platform.copies[:licences],
        hosts=platform.hosts[:, :licences],
    )


def state_of(
    jobs: Jobs,
    platform: Platform,
    policy: Policy,
    params: Floats,
    *,
    estimate: Ints,
    licences: int | None = None,
    asked: Ints | None = None,
    **more: Any,
) -> Any:
    """Return a State with rows for a whole log, of which nothing is submitted yet.

    jobs: in queue order (submit, then file order), resources and licences those of the platform. estimate: the walltime
    that the policy may count on. licences: how many of the platform's licences are real, not accounts of limits; None
    means all. asked: what each job requested, shape (jobs, resources), if that is not what it holds. more: see
    `new_state`.
    """
    alone = without_accounts(platform, len(platform.licences) if licences is None else licences)
    entry = Entry(alone, policy, platform.is_pool)
    some = entry.take(jobs, platform, estimate)
    sizes = some.columns["need"][:, 0].copy()
    hidden = replace(jobs, runtime=estimate, walltime=estimate)  # no policy may know how long jobs run
    facts = policy.prepared(params, platform, hidden, asked)
    state = new_state(alone, policy, params, entry.room, sizes=sizes, facts=facts, **more)
    entry.write(state, some, only=True)
    return state
