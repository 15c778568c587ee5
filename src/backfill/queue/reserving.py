"""Advance reservations of the queue: their resources, their users, and the jobs that they end.

A reservation takes nodes and amounts that are free at its begin, as far as walltimes tell; with force, jobs that hold
them longer are ended then. The planner divides its platform by reservations (worlds/reserved.py).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from backfill.model.names import did_you_mean
from backfill.model.units import amount_text, local_text, names_text, time_text
from backfill.queue import events
from backfill.queue.book import Book
from backfill.queue.events import Event, Reserve, Unreserve
from backfill.queue.job import REQUEUE, Job
from backfill.queue.nodes import MACHINE, Amounts
from backfill.queue.schema import Refused, dated
from backfill.queue.shapes import ReserveRequest
from backfill.queue.states import ENDING

if TYPE_CHECKING:  # a queue without reservations needs no numpy
    from backfill.model.platform import Platform
    from backfill.model.reservations import Reservation
    from backfill.model.workload import Ints

OWNERS = ("user", "group", "project")
BEGAN, OVER = "reservation-began", "reservation-over"  # why attempts are ended, and the reasons shown for that
REASONS = {BEGAN: "ReservationBegan", OVER: "ReservationOver"}
SHOWN, NODES = 3, 20  # jobs and nodes listed in a message


# ---------------------------------------------------------------------- create and cancel


def made(request: ReserveRequest, book: Book, now: int, platform: "Platform | None") -> Reserve:
    """Return the requested reservation. Raises Refused. now: by the queue clock."""
    from backfill.model.machines import machine
    from backfill.model.reservations import whole_nodes

    name, begin, until = request["reservation"], *_span(dated(request, now + book.skew), now + book.skew)
    _check_name(name, book)
    if not any(request.get(owner) for owner in OWNERS):
        raise Refused("the reservation has no owner; expected --user, --group or --project", field="user")
    platform = platform or machine(book.capacity, MACHINE)
    others, span = known(book, platform), (begin - book.skew, until - book.skew)
    chosen, amounts = _chosen(request, platform), request.get("amount", {})
    rooms = _rooms(book, platform, others, span)
    try:
        if amounts:
            found = _amounts(request, platform, *rooms, chosen)
        elif chosen is not None:
            found = whole_nodes(platform, chosen, others, *span)
        else:
            found = _some_nodes(request, platform, *rooms)
    except ValueError as error:
        raise Refused(f"reservation {name}: {error}", "impossible", "nodes") from None
    nodes = [[platform.nodes[node], _named(platform, much), whole] for node, much, whole in found]
    owners = request.get("user", ""), request.get("group", ""), request.get("project", "")
    event = Reserve(name, begin, until, nodes, *owners, token=request["token"])
    if not request.get("force"):
        _spare([*losers(book, event, span[0])], f"reservation {name}", book, now)
    return event


def _named(platform: "Platform", much: Any) -> Amounts:
    return {name: amount for name, amount in zip(platform.resources, much.tolist(), strict=True) if amount}


def _rooms(
    book: Book, platform: "Platform", others: "Sequence[Reservation]", span: tuple[int, int]
) -> "tuple[Ints, Ints]":
    """Return the capacity of nodes beside other reservations, (nodes, resources), and what jobs leave free by then."""
    from backfill.model.reservations import room_beside

    room = room_beside(platform, others, (), *span)
    for node, place in enumerate(platform.nodes):
        room[node] = room[node].clip(max=[book.nodes.there[place].get(what, 0) for what in platform.resources])
    free = room.copy()
    for job in (book.jobs[number] for number in book.holding):
        for place, what, amount in book.parts(job) if _stays(book, job, span[0]) else ():
            if place in platform.nodes and what in platform.resources:
                free[platform.nodes.index(place), platform.resources.index(what)] -= amount
    return room, free


def cancelled(name: str, force: bool, book: Book, now: int) -> Unreserve | None:
    """Return the early end of a reservation; None if it is over. Raises Refused."""
    if name in book.reserved and name not in book.reservations:
        return None
    if name not in book.reservations:
        raise Refused(f"there is no reservation {name}; {_there(name, book)}", "unknown", "reservation")
    if not force:
        _spare([*_inside(book, name)], f"the end of reservation {name}", book, now)
    return Unreserve(name, early=True)


def _check_name(name: str, book: Book) -> None:
    """Raise Refused for an invalid or used name of a new reservation."""
    from backfill.model.constraint import NAME, is_feature

    if not is_feature(name) or "@" in name or name == "none":
        raise Refused(f"{name!r} is not the name of a reservation; expected {NAME}, and no @", field="reservation")
    if name in book.reserved:
        there = "is" if name in book.reservations else "was"
        raise Refused(f"there {there} a reservation {name} already; expected another name", "state", "reservation")


def known(book: Book, platform: "Platform") -> "list[Reservation]":
    """Return the reservations that are not over, by the queue clock."""
    from backfill.model.reservations import of_grants

    return of_grants(platform, [each.granted(book.skew) for each in book.reservations.values()], book.last_t)


def _span(request: ReserveRequest, now: int) -> tuple[int, int]:
    """Return begin and end, by the calendar."""
    begin = request.get("begin", now)
    if begin < now:
        raise Refused("its begin has passed; expected a time to come, or no --from for now", field="from")
    ends = [request["until"]] if "until" in request else []
    ends += [begin + request["span"]] if "span" in request else []
    if len(ends) != 1:
        raise Refused("expected either --until or --for", field="until")
    (until,) = ends
    if until <= begin:
        raise Refused("it ends before it begins; expected a later --until", field="until")
    return begin, until


def _chosen(request: ReserveRequest, platform: "Platform") -> list[int] | None:
    """Return the nodes named by shell patterns; None if the queue is to choose."""
    if "nodes" not in request:
        return None
    from backfill.model.constraint import matching

    found: dict[int, None] = {}
    for text in request["nodes"]:
        some = matching(text, platform.nodes)
        if not some:
            more = ", ..." if len(platform.nodes) > NODES else ""
            raise Refused(
                f"node {text!r} is unknown; expected {names_text(platform.nodes[:NODES])}{more}", "unknown", "nodes"
            )
        found |= dict.fromkeys(some)
    return [*found]


def _some_nodes(request: ReserveRequest, platform: "Platform", room: "Ints", free: "Ints") -> list[Any]:
    """Choose whole nodes, the last ones that no job holds by then; with force also others."""
    wanted, force, capacity = request.get("count", 0), request.get("force", False), platform.capacity
    if not wanted:
        raise ValueError("it has no resources; expected --nodes or --amount")
    there = [node for node in reversed(range(len(room))) if (room[node] == capacity[node]).all()]
    there.sort(key=lambda node: bool((free[node] < capacity[node]).any()))
    some = there if force else [node for node in there if (free[node] == capacity[node]).all()]
    if len(some) < wanted:
        problem = f"only {len(some)} of {wanted} nodes are free by then beside jobs and other reservations"
        raise ValueError(f"{problem}; expected fewer, a later --from{'' if force else ', or --force'}")
    return [(node, capacity[node], True) for node in sorted(some[:wanted])]


def _amounts(
    request: ReserveRequest, platform: "Platform", room: "Ints", free: "Ints", chosen: Sequence[int] | None
) -> list[Any]:
    """Choose amounts on each of the named nodes, or spread over all nodes."""
    from backfill.model.reservations import amounts_on

    if "count" in request:
        raise ValueError("amounts are taken from named nodes, or from any nodes; expected no number of nodes")
    wanted = {}
    for name, amount in request["amount"].items():
        if name not in platform.resources:
            hint = did_you_mean(name, platform.resources, f"expected {', '.join(platform.resources)}")
            raise ValueError(f"{name!r} is not a resource of a node; {hint}")
        wanted[platform.resources.index(name)] = amount

    def on(room: "Ints") -> list[Any]:
        groups = [None] if chosen is None else [(node,) for node in chosen]
        found = (amounts_on(platform, room.clip(0), wanted, only) for only in groups)
        return [(node, much, False) for some in found for node, much in some]

    try:
        return on(free)
    except ValueError:
        if request.get("force") or chosen is not None:  # jobs that hold them are named in the error
            return on(room)
        raise


def row(each: Reserve) -> dict[str, object]:
    """Return a reservation as clients see it, its instants those of the calendar."""
    window = {"begin_s": each.begin / 1e6, "until_s": each.until / 1e6, "nodes": each.nodes}
    return {"reservation": each.reservation, **{owner: getattr(each, owner) for owner in OWNERS}, **window}


# ---------------------------------------------------------------------- use


def admit(job: Job, book: Book, now: int, platform: "Platform | None") -> None:
    """Raise Refused for a job whose reservation does not exist, is not for its user, or is too small for it."""
    each = book.reservations.get(job.reservation)
    if each is None:
        what = "is over" if job.reservation in book.reserved else "is not there"
        raise Refused(
            f"reservation {job.reservation!r} {what}; {_there(job.reservation, book)}", "unknown", "reservation"
        )
    if not any(getattr(each, owner) and getattr(each, owner) == getattr(job, owner) for owner in OWNERS):
        problem = f"reservation {each.reservation} is for {owners_text(each)}, and the job is of user {job.user}"
        raise Refused(f"{problem}; expected another one, or none", "usage", "reservation")
    span = each.until - max(each.begin, now + book.skew)
    if job.walltime + job.grace > span:
        problem = f"reservation {each.reservation} has {time_text(max(span, 0))} left, and the job may take"
        raise Refused(f"{problem} {time_text(job.walltime + job.grace)} with its grace", "impossible", "walltime")
    check_room(job, book, platform)


def check_room(job: Job, book: Book, platform: "Platform | None") -> None:
    """Raise Refused for a job that the nodes of its reservation, as far as the platform has them, can never run."""
    from backfill.model.machines import machine

    each, whole = book.reservations[job.reservation], platform or machine(book.capacity, MACHINE)
    found = next((one for one in known(book, whole) if one.name == each.reservation), None)
    if found is None:
        names = names_text([name for name, _, _ in each.nodes][:NODES])
        problem = f"the queue has no node of reservation {each.reservation} any more, which has {names}"
        raise Refused(f"{problem}; expected another one, or none", "impossible", "reservation")
    may = whole.allows(job.constraint)[[*found.nodes]] if job.constraint else [True] * len(found.nodes)
    asked = [(k, job.need[what]) for k, what in enumerate(whole.resources) if job.need.get(what)]
    per_node = [
        min(int(much[k]) // amount for k, amount in asked) if allowed else 0
        for much, allowed in zip(found.amounts, may, strict=True)
    ]
    fit = sum(min(many, 1) for many in per_node) if job.spread == "distinct" else sum(per_node)
    fit = max(per_node) if job.spread == "node" else fit
    if fit < job.tasks:
        some = f"{fit} task{'' if fit == 1 else 's'}"
        one = ", ".join(amount_text(name, amount) for name, amount in job.need.items() if amount)
        raise Refused(
            f"reservation {each.reservation} has room for {some} of {one}, and the job asks for {job.tasks}",
            "impossible",
            "reservation",
        )


def owners_text(each: Reserve) -> str:
    """Return the owners, such as `user ana, project climate`."""
    return ", ".join(f"{owner} {name}" for owner in OWNERS if (name := getattr(each, owner)))


def _there(name: str, book: Book) -> str:
    names = sorted(book.reservations)
    return did_you_mean(name, names, f"expected {', '.join(names)}" if names else "there are none")


# ---------------------------------------------------------------------- passing time


def due(book: Book, now: int) -> Iterator[Event]:
    """Yield the effects of reservations that have begun or are over. now: by the queue clock."""
    for each in [*book.reservations.values()]:
        if each.until - book.skew <= now:
            yield from stops(book, each.reservation)
            yield Unreserve(each.reservation)
        elif each.begin - book.skew <= now and each.reservation not in book.opened:
            for job in losers(book, each, now):
                yield events.Stop(job.id, REQUEUE if job.requeue else BEGAN)
            yield events.Opened(each.reservation)


def stops(book: Book, name: str) -> Iterator[Event]:
    """Yield the ends of the jobs that run in a reservation; waiting ones become hopeless, see commands.hopeless."""
    for job in _inside(book, name):
        yield events.Stop(job.id, OVER)


def next_instant(book: Book, now: int) -> int | None:
    """Return when the next reservation begins or ends."""
    times = [t - book.skew for each in book.reservations.values() for t in (each.begin, each.until)]
    return min((t for t in times if t > now), default=None)


def _inside(book: Book, name: str) -> list[Job]:
    """Return the jobs that run in a reservation, and are not being ended."""
    some = [book.jobs[number] for number in sorted(book.holding)]
    return [job for job in some if job.reservation == name and job.state != ENDING]


def losers(book: Book, each: Reserve, at: int) -> Iterator[Job]:
    """Yield the jobs to end so that a reservation gets its resources at an instant: the last started first.

    Only jobs that may run beyond the instant count, and only as many as necessary. at: by the queue clock.
    """
    some = [job for number in book.holding if _stays(book, job := book.jobs[number], at)]
    some.sort(key=lambda job: (job.current.start, job.id), reverse=True)
    lost = dict[int, Job]()
    for place, _, whole in each.nodes:
        here = [job for job in some if any(node == place for node, *_ in job.current.nodes)]
        lost |= {job.id: job for job in (here if whole else _too_many(book, each, place, here, at + book.skew))}
    yield from (job for job in lost.values() if job.state != ENDING)


def _stays(book: Book, job: Job, at: int) -> bool:
    """Return whether a job outside reservations may hold resources beyond an instant."""
    return job.reservation not in book.reservations and _limit(job) > at


def _too_many(book: Book, each: Reserve, place: str, beyond: Sequence[Job], at: int) -> Iterator[Job]:
    """Yield the jobs on a node that do not fit beside the reservations of an instant of the calendar, in this order.

    A drained node counts with what is stated: what runs there continues.
    """
    left = dict(book.nodes.stated.get(place, {}))
    others = (one for one in book.reservations.values() if one.reservation != each.reservation)
    there = [one for one in others if one.begin <= at < one.until]

    def give(parts: Iterable[tuple[str, str, int]], sign: int) -> None:
        for node, name, amount in parts:
            if node == place:
                left[name] = left.get(name, 0) + sign * amount

    for one in (each, *there):
        give(((node, name, amount) for node, has, _ in one.nodes for name, amount in has.items()), -1)
    for job in beyond:
        give(book.parts(job), -1)
    for job in beyond:
        if all(amount >= 0 for amount in left.values()):
            return
        yield job
        give(book.parts(job), 1)


def _limit(job: Job) -> int:
    """Return the latest end of the attempt of a job."""
    return job.current.start + job.left + job.grace


def _spare(lost: Sequence[Job], what: str, book: Book, now: int) -> None:
    """Raise Refused if jobs would be ended."""
    if not lost:
        return
    some = sorted(lost, key=_limit)[-SHOWN:]
    until = [local_text(_limit(job) + book.skew, now + book.skew) for job in some]
    ended = ", ".join(f"job {job.label} (may run until {t})" for job, t in zip(some, until, strict=True))
    more = f", and {len(lost) - len(some)} others" if len(lost) > len(some) else ""
    raise Refused(f"{what} would end {ended}{more}; expected other nodes, a later time, or --force", "state", "force")


def renews(event: Reserve | Unreserve, book: Book) -> bool:
    """Whether another epoch begins with this event, which the book knows: not by a reservation that ends in its time,
    unless the policy plans by predictions once it is the last one."""
    early = isinstance(event, Reserve) or event.early
    return early or (bool(book.epoch.get("predict")) and not book.reservations)


def changed(grants: Iterable[Any], book: Book) -> bool:
    """Whether the reservations of an epoch are others than those that are not over, or the last of them is over, behind
    which the policy plans by predictions."""
    there, before = [each.granted(book.skew) for each in book.reservations.values()], [*grants]
    waits = bool(before) and not there and bool(book.epoch.get("predict"))
    return waits or [each for each in before if each["reservation"] in book.reservations] != there
