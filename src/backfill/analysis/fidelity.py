"""The accuracy of a model of a pool's own scheduler in predicting starts: fitted on one half, judged on the other.

A model is a policy with the overhead of the pool: the dead time for which a run holds its nodes beyond its run time,
and the delay after which the pool first looks at a job. It is chosen by the real starts of the jobs submitted in
the first half of the observed time, and judged by those of the second half, which had no part in the choice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backfill.analysis.groups import SIZES, class_of
from backfill.model.units import SECOND, counted, seconds_text, times
from backfill.model.workload import Floats, Ints, Labels, total

ERROR_MAX = 0.10  # of the mean wait; a model with a larger error cannot predict the effect of other policies
ORDER_MIN = 0.75  # of the pairs of jobs that waited at the same time; chance gives one half
FEWEST = 20  # judging jobs that waited
FEW = 100  # jobs; with fewer, one long wait moves the mean
DOMINANT = 0.05  # share of jobs that must not cause half of the error, or hold half of the processor time
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
USERS_MOST = 12  # with a row in the table
POINTS_MOST = 2_000  # jobs whose waits are kept for figures
DEAD_TIMES = (0, SECOND, 4 * SECOND, 16 * SECOND, 64 * SECOND)  # tried with each policy
REFINED, ROUNDS = 3, 6  # this many of the best policies are refined in this many rounds

Waits = tuple[Ints, Ints]  # when each job could start, and when it did
Tell = Callable[[int, int], None]  # called with the number of simulations done, and of all


@dataclass(frozen=True, slots=True)
class Model:
    """A possible scheduler of a pool; times in microseconds."""

    policy: str
    dead_time: int = 0  # held beyond the run time of each run
    delay: int = 0  # from the submit of a job until the pool first considers it

    def __str__(self) -> str:
        more = [f"{seconds_text(self.dead_time)} s of dead time"] if self.dead_time else ["no dead time"]
        more += [f"{seconds_text(self.delay)} s from submit to first look"] if self.delay else []
        return f"{self.policy} with {' and '.join(more)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {"policy": self.policy, "dead_time_s": self.dead_time / SECOND, "delay_s": self.delay / SECOND}


@dataclass(frozen=True, eq=False, slots=True)
class Observed:
    """Jobs with observed starts, in the order of the workload. Microseconds, arrays of shape (jobs,)."""

    rows: Ints  # of the workload
    submit: Ints
    eligible: Ints  # not before its submit, nor before the end of its predecessors
    start: Ints
    run: Ints
    procs: Ints
    user: Labels

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: NDArray[Any]) -> "Observed":
        """Return the jobs at these indices."""
        times_ = (self.submit[places], self.eligible[places], self.start[places], self.run[places])
        return Observed(self.rows[places], *times_, self.procs[places], self.user.take(np.arange(len(self))[places]))

    @property
    def middle(self) -> int:
        """The middle of the submit interval."""
        return (int(self.submit.min()) + int(self.submit.max())) // 2 if len(self) else 0

    def halves(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return the jobs submitted in each half of that interval."""
        first: NDArray[np.bool_] = self.submit <= self.middle
        return first, ~first


@dataclass(frozen=True, slots=True)
class ClassFidelity:
    """The mean waits of the jobs of one class."""

    by: str  # `size` or `user`
    label: str
    jobs: int
    observed_s: float
    simulated_s: float

    @property
    def relative(self) -> float | None:
        """The relative error of the mean wait; None if no job waited in reality."""
        return self.simulated_s / self.observed_s - 1 if self.observed_s else None


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Simulated starts compared with the observed ones of the same jobs. A wait is start - eligible."""

    jobs: int  # started in both
    waited: int  # of these, waited in reality
    observed_s: float  # mean wait
    simulated_s: float
    in_order: float | None  # share of all pairs of jobs that do not start in the opposite order; None without a pair
    chosen_in_order: float | None  # among the pairs that waited at the same time, between which the scheduler chose
    difference_s: tuple[float, ...]  # QUANTILES of simulated start - observed start
    apart_s: float  # mean of its absolute value
    few_share: float  # share of the sum of these absolute values due to the DOMINANT jobs with the largest
    held_share: float  # share of the processor time due to the DOMINANT jobs with the most
    classes: tuple[ClassFidelity, ...]

    @classmethod
    def of(cls, observed: Observed, simulated: Waits) -> "Fidelity":
        """Compare with `simulated`: when each observed job could start, and when it started (below 0 if it did not)."""
        eligible, start = simulated
        real, model = observed.start - observed.eligible, start - eligible
        apart = start - observed.start
        waits = real > 0
        chosen = _in_order(observed.eligible[waits], observed.start[waits], start[waits])
        return cls(
            jobs=len(observed),
            waited=int(np.count_nonzero(waits)),
            observed_s=_mean_s(real),
            simulated_s=_mean_s(model),
            in_order=_share_in_order(observed.start, start),
            chosen_in_order=chosen,
            difference_s=tuple((np.quantile(apart, QUANTILES) / SECOND).tolist()) if len(apart) else (),
            apart_s=_mean_s(np.abs(apart)),
            few_share=_share_of_few(np.abs(apart)),
            held_share=_share_of_few(observed.run.astype(np.float64) * observed.procs),
            classes=(*_by_size(observed, real, model), *_by_user(observed, real, model)),
        )

    @property
    def relative(self) -> float | None:
        """The relative error of the mean wait; None if no job waited in reality."""
        return self.simulated_s / self.observed_s - 1 if self.observed_s else None

    @property
    def score(self) -> float:
        """Return the penalty of a model, the sum of three shares.

        They are the error of the mean wait, the mean distance of starts from the real ones in mean waits, and the pairs
        that start in the other order. With the mean alone, a dead time could compensate for any policy; with distances
        alone, models with short waits would win.
        """
        order = self.in_order if self.chosen_in_order is None else self.chosen_in_order
        error = float(self.simulated_s > 0) if self.relative is None else abs(self.relative)
        apart = self.apart_s / self.observed_s if self.observed_s else float(self.apart_s > 0)
        return error + apart + 1 - (1.0 if order is None else order)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        names = ("jobs", "waited", "observed_s", "simulated_s", "relative", "in_order", "chosen_in_order", "apart_s")
        heads = ("by", "class", "jobs", "observed_s", "simulated_s", "relative")
        return {
            **{name: getattr(self, name) for name in names},
            "difference_s": {f"{q:g}": value for q, value in zip(QUANTILES, self.difference_s, strict=False)},
            "classes": [
                dict(zip(heads, (c.by, c.label, c.jobs, c.observed_s, c.simulated_s, c.relative), strict=True))
                for c in self.classes
            ],
        }


@dataclass(frozen=True, eq=False)
class Fit:
    """The model chosen on the first half, and its result on the second half."""

    model: Model
    fitted: Fidelity  # on the first half
    judged: Fidelity  # on the second half
    tried: tuple[tuple[Model, Fidelity], ...]  # each policy with its best dead time, on the first half, best first
    waits: tuple[Floats, Floats]  # of the judged jobs, observed and simulated, in seconds; at most POINTS_MOST

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """The reasons why it is not conclusive, one sentence each, the main one first; empty if it is."""
        return (*against(self.judged, self.fitted),)

    @property
    def conclusive(self) -> bool:
        """Return whether the model is accurate enough to predict the effects of other policies on the pool."""
        return not self.reasons

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        if not self.conclusive:
            return f"not conclusive: {self.reasons[0]}"
        real, model = times([self.judged.observed_s, self.judged.simulated_s])
        order = self.judged.chosen_in_order
        waiting = "" if order is None else f", and {order:.0%} of the pairs that waited at the same time"
        pairs = waiting and f"{waiting} start in the same order"
        off = "" if self.judged.relative is None else f" ({self.judged.relative:+.1%})"
        return f"conclusive: {self.model} gives a mean wait of {model}{off} where the pool had {real}{pairs}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        observed, simulated = ([round(each, 6) for each in some.tolist()] for some in self.waits)
        return {
            "conclusive": self.conclusive,
            "sentence": self.sentence,
            "reasons": list(self.reasons),
            "model": self.model.to_dict(),
            "fitted": self.fitted.to_dict(),
            "judged": self.judged.to_dict(),
            "tried": [
                model.to_dict() | {name: getattr(one, name) for name in ("relative", "in_order", "chosen_in_order")}
                for model, one in self.tried
            ],
            "waits_s": {"observed": observed, "simulated": simulated},
        }


def fit(
    observed: Observed, policies: Sequence[str], simulate: Callable[[Model], Waits], tell: Tell | None = None
) -> Fit:
    """Choose a model by the first half of the observed jobs, and judge it by the second.

    simulate: returns when each observed job could start and started under a model. tell: receives the progress.
    Each policy is tried with DEAD_TIMES; the best ones with dead times ever closer to their best; and the best of all
    with the shortest wait of the first half as its delay. Nothing is random.
    """
    first, second = observed.halves()
    some = observed.take(first)
    most = len(policies) * len(DEAD_TIMES) + min(REFINED, len(policies)) * 2 * ROUNDS + 2 * (ROUNDS + 1)
    found: dict[Model, tuple[Waits, Fidelity]] = {}

    def score(model: Model) -> float:
        if model not in found:
            eligible, start = simulate(model)
            found[model] = (eligible, start), Fidelity.of(some, (eligible[first], start[first]))
            if tell is not None:
                tell(min(len(found), most), most)
        return found[model][1].score

    def best(models: Sequence[Model]) -> Model:
        return min(models, key=score)  # the first of equal ones

    by_policy = {policy: best([Model(policy, dead) for dead in DEAD_TIMES]) for policy in policies}
    for policy in sorted(by_policy, key=lambda name: score(by_policy[name]))[:REFINED]:
        by_policy[policy] = _refined(by_policy[policy], _beside(by_policy[policy].dead_time), score)
    model = best([*by_policy.values()])
    waits = some.start - some.eligible
    if delay := max(int(waits.min()), 0) if len(waits) else 0:
        late = best([replace(model, delay=delay), replace(model, dead_time=0, delay=delay)])
        model = best([model, _refined(late, max(model.dead_time, SECOND), score)])
        by_policy[model.policy] = model
    tried = sorted(by_policy.values(), key=score)
    if tell is not None:
        tell(most, most)
    (eligible, start), fitted = found[model]
    judges = observed.take(second)
    real, simulated = judges.start - judges.eligible, (start - eligible)[second]
    shown = np.unique(np.linspace(0, max(len(real) - 1, 0), POINTS_MOST).astype(np.int64))[: len(real)]
    return Fit(
        model=model,
        fitted=fitted,
        judged=Fidelity.of(judges, (eligible[second], start[second])),
        tried=tuple((each, found[each][1]) for each in tried),
        waits=(real[shown] / SECOND, simulated[shown] / SECOND),
    )


def _beside(dead: int) -> int:
    """Return the distance from a dead time to the farther of its neighbours in DEAD_TIMES."""
    place = DEAD_TIMES.index(dead)
    beside = DEAD_TIMES[max(place - 1, 0)], DEAD_TIMES[min(place + 1, len(DEAD_TIMES) - 1)]
    return max(abs(other - dead) for other in beside)


def _refined(model: Model, step: int, score: Callable[[Model], float]) -> Model:
    """Return the model with the best dead time within `step` of its own, found by halving the step each round."""
    for _ in range(ROUNDS):
        step //= 2
        tries = (model.dead_time - step, model.dead_time + step)
        model = min([model, *(replace(model, dead_time=dead) for dead in tries if dead >= 0)], key=score)
    return model


def against(judged: Fidelity, fitted: Fidelity) -> list[str]:
    """Return the objections to a model, one sentence each, the main one first; empty if it can be trusted."""
    for half, one in (("second", judged), ("first", fitted)):
        if one.waited < FEWEST:
            jobs = f"only {one.waited} of the {counted(one.jobs, 'job')} submitted in the {half} half waited"
            return [f"{jobs}; expected {FEWEST} or more. Observe the pool for longer"]
    objections = []
    if off := _is_off(judged):
        objections.append(f"{_error(judged)}; a model may be {ERROR_MAX:.0%} off")
    elif _is_off(fitted):
        objections.append(
            f"in the first half, by which the model was chosen, {_error(fitted)}, so the second half agrees by chance"
        )
    order = judged.chosen_in_order
    if order is not None and order < ORDER_MIN:
        share = f"only {order:.0%} of the pairs of jobs that waited at the same time start in the observed order"
        objections.append(
            f"{share}; the pool chooses by something that no model here knows, such as priorities or shares"
        )
    return [*objections, *(_causes(judged) if off else [])]


def _is_off(one: Fidelity) -> bool:
    return one.relative is None or abs(one.relative) > ERROR_MAX


def _error(one: Fidelity) -> str:
    """Phrase the error: `the simulated mean wait, 3.0 min, is 20.0% longer than the observed one, 2.5 min`."""
    model, real = times([one.simulated_s, one.observed_s])
    if one.relative is None:
        return f"the simulated mean wait is {model}, and no job waited in reality"
    side = "longer" if one.relative > 0 else "shorter"
    return f"the simulated mean wait, {model}, is {abs(one.relative):.1%} {side} than the observed one, {real}"


def _causes(judged: Fidelity) -> list[str]:
    """Return the possible causes of the error of the mean wait."""
    causes = []
    few = f"{DOMINANT:.0%} of the jobs"
    if judged.jobs < FEW:
        causes.append(
            f"there are few jobs: only {judged.jobs} were submitted in the second half, so single waits count"
        )
    if judged.held_share > 0.5:
        causes.append(f"long jobs dominate: {few} hold {judged.held_share:.0%} of the processor time")
    elif judged.few_share > 0.5:
        causes.append(f"few jobs dominate: {few} make {judged.few_share:.0%} of all differences")
    error = judged.simulated_s - judged.observed_s
    for by in ("size", "user"):
        classes = [each for each in judged.classes if each.by == by]
        most = max(classes, key=lambda each: (each.simulated_s - each.observed_s) * each.jobs * error, default=None)
        if most is None or len(classes) < 2:
            continue
        share = (most.simulated_s - most.observed_s) * most.jobs / (error * judged.jobs) if error else 0.0
        if share > 0.5 and most.jobs < judged.jobs:
            real, model = times([most.observed_s, most.simulated_s])
            who = f"jobs of {most.label}" if by == "size" else f"jobs of user {most.label}"
            causes.append(f"{who} are off most: they waited {real} on average, in the simulation {model}")
    return causes


# ---------------------------------------------------------------------- pairs


def _share_in_order(a: Ints, b: Ints) -> float | None:
    """Return the share of all pairs that are not in opposite orders in a and b; equal values are not opposite."""
    pairs = len(a) * (len(a) - 1) // 2
    return 1 - _opposite(a, b) / pairs if pairs else None


def _opposite(a: Ints, b: Ints) -> int:
    """Return the number of pairs in opposite orders in a and b."""
    order = np.lexsort((b, a))
    place = np.arange(len(a))
    return pairs_above(place, b[order], place, b[order])


def _in_order(eligible: Ints, start: Ints, simulated: Ints) -> float | None:
    """Return the share of pairs waiting at the same time, on [eligible, start), that the simulation keeps in order."""
    count = len(start)
    apart = int(np.searchsorted(np.sort(start), eligible, side="right").sum())  # pairs that never waited together
    pairs = count * (count - 1) // 2 - apart
    if not pairs:
        return None
    return 1 - (_opposite(start, simulated) - pairs_above(start, simulated, eligible, simulated)) / pairs


def pairs_above(key_a: Ints, a: Ints, key_b: Ints, b: Ints) -> int:
    """Return the number of pairs (i, j) with key_a[i] <= key_b[j] and a[i] > b[j], in O(n log^2 n) time.

    By merging: all are sorted by key, and adjacent blocks, from size 1 on, are merged by value; each value of the right
    block counts the larger ones of the left block.
    """
    keys, is_b = np.concatenate([key_a, key_b]), np.repeat([False, True], [len(a), len(b)])
    order = np.lexsort((is_b, keys))
    values = np.unique(np.concatenate([a, b]), return_inverse=True)[1][order]
    is_b = is_b[order]
    place, count, size = np.arange(len(order)), 0, 1
    while size < len(order):
        block = place // (2 * size)
        by_value = np.lexsort((place, values, block))
        right = (place // size % 2 == 1)[by_value]
        left = ~right & ~is_b[by_value]
        up_to = np.cumsum(left)
        ends = np.append(np.flatnonzero(np.diff(block)), len(order) - 1)
        in_blocks_so_far = up_to[ends][block]  # the blocks stay where they are
        asks = right & is_b[by_value]
        count += int((in_blocks_so_far - up_to)[asks].sum())
        size *= 2
    return count


# ---------------------------------------------------------------------- classes


def _by_size(observed: Observed, real: Ints, model: Ints) -> list[ClassFidelity]:
    codes = class_of(observed.procs, SIZES).codes
    return _classes("size", dict(enumerate(SIZES)), codes, real, model)


def _by_user(observed: Observed, real: Ints, model: Ints) -> list[ClassFidelity]:
    """Return the waits of the users with the most jobs."""
    codes = observed.user.codes
    used, count = np.unique(codes[codes >= 0], return_counts=True)
    most = used[np.argsort(-count, kind="stable")][:USERS_MOST].tolist()
    return _classes("user", {code: observed.user.names[code] for code in most}, codes, real, model)


def _classes(by: str, names: Mapping[int, str], codes: NDArray[Any], real: Ints, model: Ints) -> list[ClassFidelity]:
    rows = []
    for code, label in names.items():
        mine = codes == code
        if count := int(np.count_nonzero(mine)):
            rows.append(ClassFidelity(by, label, count, _mean_s(real[mine]), _mean_s(model[mine])))
    return rows


def _share_of_few(amounts: NDArray[Any]) -> float:
    """Return the share of the sum due to the largest amounts, a share DOMINANT of them."""
    whole = float(amounts.sum())
    few = max(round(DOMINANT * len(amounts)), 1)
    return float(np.sort(amounts)[-few:].sum()) / whole if whole else 0.0


def _mean_s(values: Ints) -> float:
    return total(values) / (len(values) * SECOND) if len(values) else 0.0
