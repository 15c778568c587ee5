"""The first screen of a page: a sentence (the best policy, its advantage, the certainty, the losers) and four tiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from backfill.analysis.groups import Fairness
from backfill.analysis.metric_table import described
from backfill.analysis.metrics import Metrics
from backfill.analysis.paired import Pair
from backfill.analysis.replay import FAR
from backfill.model.units import span
from backfill.report.findings import Findings
from backfill.report.reality import Reality
from backfill.report.sentences import DOUBLE, but_always, factor, users_longer
from backfill.report.values import cut, share_text, texts, without_cpus

DECIDES = "mean_wait_s"
PROJECT = "mean_project_turnaround_s"
_LABELS = {"p95_wait_s": "95 in 100 jobs wait at most", "max_queue": "Longest queue"}  # of tiles, without their heading
_SAME = 0.0005  # a relative difference of means that is shown as 0.0%


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that most readers look for first."""

    label: str
    value: str
    note: Markup  # a value to compare it with


@dataclass(frozen=True, slots=True)
class First:
    """The content of the first screen, and the policies that it covers."""

    headline: Markup
    more: list[Markup]  # sentences in small print: the certainty, who loses most, the second best
    tiles: list[Tile]
    best: int  # the policy of interest
    other: int | None  # the policy that it is compared with

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        metrics: Sequence[Metrics],
        findings: Findings,
        reality: Reality | None,
        unit: str,
    ) -> "First":
        """Build the first screen; policies are in the order of the names, the first is the baseline. unit: of waits."""
        waits = [each.get(DECIDES) for each in metrics]
        known = [i for i, wait in enumerate(waits) if wait is not None]
        if not known:
            return cls(Markup("No job has a known wait."), [], [], 0, None)
        best = min(known, key=lambda i: float(waits[i] or 0.0))
        if len(known) == 1:
            tiles = [_alone(name, metrics[best], unit) for name in _tiles(metrics)]
            return cls(_one(names[best], metrics[best], unit), _real(reality, unit), tiles, best, None)
        other = known[0] if known[0] != best else min(known[1:], key=lambda i: float(waits[i] or 0.0))
        two = _Two(names, metrics, findings, best, other, unit)
        return cls(two.headline, [*two.more, *_real(reality, unit)], two.tiles, best, other)


def _alone(name: str, metrics: Metrics, unit: str) -> Tile:
    note = ""
    if name == "mean_wait_s" and metrics.get("median_wait_s") is not None:
        half = _text("median_wait_s", metrics, unit)
        note = f"half of the jobs: {half} at most" if metrics["median_wait_s"] else "half of the jobs do not wait"
    elif name == "p95_wait_s" and metrics.get("max_wait_s") is not None:
        note = f"longest wait: {_text('max_wait_s', metrics, unit)}"
    return Tile(_label(name), _text(name, metrics, unit), escape(note))


def _label(name: str) -> str:
    """Return the label of the tile of a metric."""
    return _LABELS.get(name) or described(name).heading.capitalize()


def _text(name: str, metrics: Metrics, unit: str) -> str:
    return texts(name, [metrics.get(name)], unit)[0]


def _tiles(metrics: Sequence[Metrics]) -> list[str]:
    """Return the metrics of the tiles, most important first."""
    deadlines = any(each.get("out_deadline") is not None for each in metrics)
    projects = any(each.get(PROJECT) is not None for each in metrics)
    names = ["mean_wait_s", "p95_wait_s", *(["out_deadline"] if deadlines else []), *([PROJECT] if projects else [])]
    return [*names, *([] if without_cpus(metrics) else ["utilization"]), "max_queue"][:4]


def _one(name: str, metrics: Metrics, unit: str) -> Markup:
    """Return the headline of a single policy."""
    wait, p95 = (metrics.get(each) or 0.0 for each in ("mean_wait_s", "p95_wait_s"))
    if not metrics.get("max_wait_s", 1.0):
        return Markup("Under {}, no job waits.").format(_name(name))
    long = span(p95, unit) if p95 else ""
    most = f"95 in 100 wait {long} at most" if long else "95 in 100 do not wait at all"
    return Markup("Under {}, jobs wait {} on average, and {}.").format(_name(name), span(wait, unit), most)


def _real(reality: Reality | None, unit: str) -> list[Markup]:
    if reality is None:
        return []
    recorded, nearest = span(float(reality.replays[0]["recorded_s"]), unit), min(reality.replays, key=_off)
    sentence = f'In the log itself these jobs waited {recorded} on average: see <a href="#reality">against reality</a>.'
    if nearest["relative"] is None or abs(nearest["relative"]) <= FAR:
        return [Markup(sentence)]
    far = "The simulation is far from that, even under {} ({}): trust differences between policies, not the waits."
    relative = nearest["relative"]
    change = f"{factor(relative)} times as long" if relative > DOUBLE else f"{relative:+.0%}"
    return [Markup(sentence), Markup(far).format(_name(nearest["policy"]), change)]


def _off(replay: Mapping[str, Any]) -> float:
    return float(replay["off_s"])


@dataclass(frozen=True, eq=False, slots=True)
class _Two:
    """The best policy compared with another one."""

    names: Sequence[str]
    metrics: Sequence[Metrics]
    findings: Findings
    best: int
    other: int
    unit: str

    @property
    def headline(self) -> Markup:
        best, other = (self.metrics[i][DECIDES] or 0.0 for i in (self.best, self.other))
        if not other:
            return Markup("No job waits, neither under {} nor under {}.").format(*self._two)
        alike = [i for i in self._others if self._alike(i)]
        names = _list([self.names[i] for i in (self.best, *alike) if i != self.other])
        if abs(other - best) <= _SAME * other:
            everyone = _list([self.names[i] for i in (self.best, *alike)])
            return Markup("{} give the same mean wait, {}.").format(everyone, span(best, self.unit))
        several = len([i for i in alike if i != self.other]) > 0
        percent = f"{1 - best / other:.1%}" if other else ""
        if self._sure == "clear":
            verb = "shorten" if several else "shortens"
            said = Markup("{} {} the mean wait by {} compared with {} ({})")
        else:
            verb = "have" if several else "has"
            doubt = ", but the difference is not clear" if self._sure == "unclear" else ""
            said = Markup("{} {} the shortest mean wait, {} below {}") + doubt + Markup(" ({})")
        said = said.format(names, verb, percent, _name(self.names[self.other]), self._interval)
        return said + Markup("; {}.").format(self._paid) if self._paid else said + "."

    @property
    def _two(self) -> tuple[Markup, Markup]:
        return _name(self.names[self.other]), _name(self.names[self.best])

    @property
    def _others(self) -> list[int]:
        return [i for i in range(len(self.names)) if i != self.best]

    def _alike(self, i: int) -> bool:
        wait, best = self.metrics[i].get(DECIDES), self.metrics[self.best][DECIDES] or 0.0
        return wait is not None and abs(wait - best) <= _SAME * max(best, 1e-9)

    def _pair(self, i: int) -> Pair | None:
        """Return the pair of the mean wait with the best policy and another one, in either order."""
        two = {self.names[self.best], self.names[i]}
        return next((p for p in self.findings.pairs if p.metric == DECIDES and {p.a, p.b} == two), None)

    def _change(self, i: int) -> tuple[float, float] | None:
        """Return the interval of the change in the mean wait from another policy to the best one, both relative."""
        pair = self._pair(i)
        if pair is None or pair.relative_low is None or pair.relative_high is None:
            return None
        low, high = pair.relative_low, pair.relative_high
        if pair.a == self.names[self.best]:
            return low, high
        turned = [1 / (1 + each) - 1 for each in (low, high) if each > -1]
        return (min(turned), max(turned)) if len(turned) == 2 else None

    @property
    def _sure(self) -> str:
        change = self._change(self.other)
        return "unknown" if change is None else "clear" if change[1] < 0 else "unclear"

    @property
    def _interval(self) -> str:
        change = self._change(self.other)
        if change is None:
            return "no 95% interval"
        if self._sure == "clear":
            return f"95% interval {-change[1]:.1%} to {-change[0]:.1%}"
        if change[1] > DOUBLE:
            return f"95% interval {factor(change[0])} to {factor(change[1])} times as long"
        return f"95% interval {_signed(change[0])} to {_signed(change[1])}"

    @property
    def _fair(self) -> Fairness | None:
        """The jobs and users that are worse off under the best policy than under the other, if they were counted."""
        two = (self.names[self.best], self.names[self.other])
        return next((each for each in self.findings.fairness if (each.a, each.b) == two), None)

    @property
    def _paid(self) -> str:
        """A sentence on the jobs or users that wait longer under the best policy."""
        fair = self._fair
        if fair is None:
            return ""
        if fair.users > 1:
            return users_longer(fair)
        if not fair.later:
            return "no job starts later"
        return _start_later(fair)

    @property
    def more(self) -> list[Markup]:
        return [*self._why, *self._worst, *self._second, *self._deadlines]

    @property
    def _deadlines(self) -> list[Markup]:
        """A sentence on the policy with the fewest missed deadlines, unless it is the one with the shortest waits."""
        missed = [each.get("out_deadline") for each in self.metrics]
        known = [i for i, share in enumerate(missed) if share is not None]
        fewest = min(known, key=lambda i: float(missed[i] or 0.0), default=self.best)
        if not known or self.best not in known or missed[fewest] == missed[self.best]:
            return []
        least, ours = texts("out_deadline", [missed[fewest], missed[self.best]])
        words = _name(self.names[fewest]), least, _name(self.names[self.best]), ours
        return [Markup("{} misses fewest deadlines: {} of them, where {} misses {}.").format(*words)]

    @property
    def _why(self) -> list[Markup]:
        pair = self._pair(self.other)
        if pair is None or self._change(self.other) is not None or pair.difference in (None, 0):
            return []
        why = pair.method.partition(": ")[2] or pair.method
        return [Markup("There is no 95% interval: {}{}.").format(why, but_always(pair))]

    @property
    def _worst(self) -> list[Markup]:
        fair = self._fair
        if fair is None or (fair.worst_user is None and fair.worst_class is None):
            return []
        parts = []
        if fair.worst_user is not None:
            far = span(fair.worst_user_s or 0.0, self.unit)
            parts.append(Markup("user {} waits {} longer on average").format(_name(fair.worst_user), far))
        if fair.worst_class is not None:
            far = span(fair.worst_class_s or 0.0, self.unit)
            parts.append(Markup("jobs of {} wait {} longer").format(fair.worst_class, far))
        said = Markup(", and ").join(parts)
        return [Markup('Hit most: {} (<a href="#losers">who waits longer</a>).').format(said)]

    @property
    def _second(self) -> list[Markup]:
        """A sentence on the next best policy, if there are more than two."""
        rest = [i for i in self._others if i != self.other and not self._alike(i)]
        rest = [i for i in rest if self.metrics[i].get(DECIDES) is not None]
        if not rest:
            return []
        second = min(rest, key=lambda i: float(self.metrics[i][DECIDES] or 0.0))
        change = self._change(second)
        best, wait = (self.metrics[i][DECIDES] or 0.0 for i in (self.best, second))
        said = Markup("{} comes second with {}").format(_name(self.names[second]), span(wait, self.unit))
        ends = [1 / (1 + each) - 1 for each in reversed(change)] if change is not None else []
        more = (wait - best) / best if best else 0.0
        large = max([more, *ends]) > DOUBLE
        if best:
            said += f", {factor(more)} times as long" if large else f", {more:.1%} more"
        if not ends:
            return [said + "."]
        low, high = map(factor if large else _signed, ends)
        clear = "" if ends[0] > 0 else "; the difference is not clear"
        return [said + f" (95% interval {low} to {high}){clear}."]

    @property
    def tiles(self) -> list[Tile]:
        best, other = self.metrics[self.best], self.metrics[self.other]
        tiles_shown = []
        for name in _tiles(self.metrics)[:3]:
            value, was = texts(name, [best.get(name), other.get(name)], self.unit)
            tiles_shown.append(Tile(_label(name), value, self._note(was)))
        return [*tiles_shown, self._payers or self._queue]

    @property
    def _payers(self) -> Tile | None:
        fair = self._fair
        if fair is None:
            return None
        if fair.users > 1:
            far = span(fair.worst_user_s or 0.0, self.unit)
            note = escape(_start_later(fair))
            if fair.worst_user is not None:
                note = Markup("most: {}, +{}").format(_name(fair.worst_user), far)
            return Tile("Users who wait longer", f"{fair.users_longer:,} of {fair.users:,}", note)
        note = escape(f"at most by {span(fair.max_delay_s or 0.0, self.unit)}" if fair.later else "")
        return Tile("Jobs that start later", share_text(fair.later_share or 0.0), note)

    @property
    def _queue(self) -> Tile:
        best, other = self.metrics[self.best], self.metrics[self.other]
        name = "max_queue" if "max_queue" in best else "mean_bounded_slowdown"
        value, was = texts(name, [best.get(name), other.get(name)], self.unit)
        return Tile(_label(name), value, self._note(was))

    def _note(self, was: str) -> Markup:
        return Markup("with {}; {}: {}").format(_name(self.names[self.best]), _name(self.names[self.other]), was)


def _start_later(fair: Fairness) -> str:
    return f"{share_text(fair.later_share or 0.0).replace('<', 'less than ')} of the jobs start later"


def _signed(share: float) -> str:
    return f"{share:+.1%}".replace("-", "\N{MINUS SIGN}") if abs(share) >= 0.0005 else "0.0%"


def _name(text: str) -> Markup:
    return Markup("<bdi>{}</bdi>").format(cut(text))


def _list(names: Sequence[str]) -> Markup:
    """Join texts: `a`, `a and b`, `a, b and c`."""
    each = [_name(name) for name in names]
    return each[0] if len(each) == 1 else Markup("{} and {}").format(Markup(", ").join(each[:-1]), each[-1])
