"""Find the best schedule of an instance with CP-SAT, or the best within its time limit, with a proven bound.

Search strategies in fixed turns, a seed and a limit in deterministic time, which counts steps: the same instance gives
the same answer.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from backfill.analysis.optimum.instance import Instance, Task
from backfill.model.errors import BackfillError, MissingExtra, UsageError

LOOK_S = 0.2  # seconds between two checks for Ctrl-C
WORKERS = 4  # independent of the machine: this many strategies take turns
_LARGEST = 2**58  # limit of a sum of costs, so that the solver's own sums stay below 2^63
_FINEST = 10**6  # slowdowns are rounded down to this fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Solved:
    """The best schedule found, and a lower bound for all schedules."""

    starts: tuple[int, ...]  # in units of the instance
    held: tuple[tuple[tuple[int, int], ...], ...]  # (node, tasks) of each job
    bound: float  # of the objective as in `cost`, never above the optimum
    proven: bool  # whether the schedule is proven optimal


def check_installed() -> Any:
    """Return the solver's module; raises MissingExtra if it is not installed."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise MissingExtra("the exact optimum", "optimum") from None
    return cp_model


def costs(instance: Instance, objective: str, starts: Sequence[int]) -> float:
    """Return the objective of a schedule, in units of the instance: the makespan, or the mean over the counted jobs."""
    ends = [start + task.held for start, task in zip(starts, instance.tasks, strict=True)]
    if objective == "makespan":
        return float(max((ends[j] for j in instance.counted), default=0))
    total = weight = 0.0
    for j in instance.counted:
        task = instance.tasks[j]
        ready = max([task.release, *(ends[k] + task.think for k in task.after)])
        wait, each = starts[j] - ready, 1 if objective == "mean-wait" else task.weight
        shown = wait if objective == "mean-wait" else max(1.0, (wait + task.run) / max(task.run, instance.tau))
        total, weight = total + each * shown, weight + each
    return total / weight if weight else 0.0


def solve(instance: Instance, objective: str, hint: Sequence[int], time_limit: float = 60.0, seed: int = 0) -> Solved:
    """Find the best schedule of an instance; the result has no starts if none was found in time.

    hint: valid starts, from which the solver begins. time_limit: in its deterministic seconds.
    """
    cp_model = check_installed()
    model = _Model(cp_model.CpModel(), instance)
    cost, scale, constant = model.minimise(objective)
    for variable, start in zip(model.starts, hint, strict=True):
        if not isinstance(variable, int):
            model.cp.add_hint(variable, start)
    if problem := model.cp.validate():
        raise UsageError(f"the numbers of this instance are too large for the solver: {problem.splitlines()[0]}")
    solver = cp_model.CpSolver()
    solver.parameters.interleave_search = True  # several strategies in turns, in an order independent of any clock
    solver.parameters.num_workers = WORKERS
    solver.parameters.random_seed = seed % 2**31
    solver.parameters.max_deterministic_time = time_limit
    solver.parameters.catch_sigint_signal = False
    status = _interruptible(solver, model.cp)
    if status in (cp_model.INFEASIBLE, cp_model.MODEL_INVALID):
        raise BackfillError(f"the solver calls an instance {solver.status_name(status)} of which a schedule is known")
    bound = (max(solver.best_objective_bound, 0) if cost is not None else 0) / scale + constant
    if status == cp_model.UNKNOWN:
        return Solved(starts=(), held=(), bound=bound, proven=False)
    starts = tuple(each if isinstance(each, int) else int(solver.value(each)) for each in model.starts)
    held = tuple(tuple((node, count) for node, each in seats.items() if (count := int(solver.value(each))))
                 for seats in model.seats)  # fmt: skip
    return Solved(starts=starts, held=held, bound=bound, proven=status == cp_model.OPTIMAL)


def _interruptible(solver: Any, model: Any) -> Any:
    """Solve in a thread, so that Ctrl-C is noticed before the search is over."""
    with ThreadPoolExecutor(1) as thread:
        search = thread.submit(solver.solve, model)
        try:
            while not wait([search], LOOK_S).done:
                pass
            return search.result()
        except KeyboardInterrupt:
            solver.stop_search()
            raise


class _Model:
    """The instance as constraints: starts, seats on nodes, and the capacity of each resource and licence."""

    def __init__(self, cp: Any, instance: Instance) -> None:
        self.cp, self.instance = cp, instance
        horizon = instance.horizon
        self.starts = [
            cp.new_int_var(task.release, horizon, "") if task.start is None else task.start for task in instance.tasks
        ]
        self.intervals = [
            cp.new_fixed_size_interval_var(start, task.held, "")
            for start, task in zip(self.starts, instance.tasks, strict=True)
        ]
        self.seats = [self._seats(task) for task in instance.tasks]
        self.ready = [self._ready(task) for task in instance.tasks]
        self._carry()
        for window in instance.closed:
            self._close(*window)

    def _seats(self, task: Task) -> dict[int, Any]:
        """Return the number of tasks of a job on each of its possible nodes."""
        if len(self.instance.capacity) == 1:
            return {0: self.cp.new_constant(task.count)}
        most = 1 if task.spread == "distinct" else task.count
        seats = {node: self.cp.new_int_var(0, most, "") for node in task.nodes if self._fits(task, node)}
        self.cp.add(sum(seats.values()) == task.count)
        if task.spread in ("node", "site"):
            groups: dict[int, list[int]] = {}
            for node in seats:
                groups.setdefault(node if task.spread == "node" else self.instance.site[node], []).append(node)
            chosen = {group: self.cp.new_bool_var("") for group in groups}
            self.cp.add_exactly_one(chosen.values())
            for group, nodes in groups.items():
                self.cp.add(sum(seats[node] for node in nodes) == task.count * chosen[group])
        return seats

    def _fits(self, task: Task, node: int) -> bool:
        return all(need <= there for need, there in zip(task.demand, self.instance.capacity[node], strict=True))

    def _ready(self, task: Task) -> Any:
        """Return the instant from which a job waits."""
        if not task.after:
            return task.release
        ends = [self.starts[k] + self.instance.tasks[k].held + task.think for k in task.after]
        ready = self.cp.new_int_var(task.release, self.instance.horizon, "")
        self.cp.add_max_equality(ready, [task.release, *ends])
        return ready

    def _carry(self) -> None:
        tasks, capacity = self.instance.tasks, self.instance.capacity
        for start, ready, task in zip(self.starts, self.ready, tasks, strict=True):
            if task.after:
                self.cp.add(start >= ready)
        loads = [self._loads(task, seats) for task, seats in zip(tasks, self.seats, strict=True)]
        for k in range(len(capacity[0])):
            for node in range(len(capacity)):
                self._cumulative([load.get(node, {}).get(k, 0) for load in loads], capacity[node][k])
            if len(capacity) > 1:  # implied by the nodes, but the solver bounds one sum better than many
                self._cumulative([task.count * task.demand[k] for task in tasks], sum(each[k] for each in capacity))
        for licence, copies in enumerate(self.instance.copies):
            self._cumulative([dict(task.licences).get(licence, 0) for task in tasks], copies)

    def _close(self, node: int, begin: int, end: int) -> None:
        """Let no job with tasks on a node start that could still run when a window begins, before that is over."""
        for start, task, seats in zip(self.starts, self.instance.tasks, self.seats, strict=True):
            if task.held and node in seats and task.start is None:
                here, later = self.cp.new_bool_var(""), self.cp.new_bool_var("")
                self.cp.add(seats[node] == 0).only_enforce_if(here.negated())
                self.cp.add(start + task.limit <= begin).only_enforce_if(here, later.negated())
                self.cp.add(start >= end).only_enforce_if(here, later)

    def _loads(self, task: Task, seats: dict[int, Any]) -> dict[int, dict[int, Any]]:
        """Return the load of a job: node -> resource -> amount."""
        capacity = self.instance.capacity
        if not task.exclusive:
            alone = len(capacity) == 1
            return {node: {k: task.count * need if alone else need * seat for k, need in enumerate(task.demand) if need}
                    for node, seat in seats.items()}  # fmt: skip
        loads: dict[int, dict[int, Any]] = {}
        for node, seat in seats.items():
            there = self.cp.new_bool_var("")
            self.cp.add(seat <= task.count * there)
            for need, most in zip(task.demand, capacity[node], strict=True):
                self.cp.add(need * seat <= most)
            loads[node] = {k: most * there for k, most in enumerate(capacity[node])}
        return loads

    def _cumulative(self, loads: Sequence[Any], capacity: int) -> None:
        """Limit the loads to `capacity` at any instant; jobs with no load or no duration are omitted."""
        tasks = self.instance.tasks
        used = [
            (interval, load)
            for interval, load, task in zip(self.intervals, loads, tasks, strict=True)
            if task.held and not (isinstance(load, int) and load == 0)
        ]
        if all(isinstance(load, int) for _, load in used) and sum(load for _, load in used) <= capacity:
            return
        self.cp.add_cumulative([interval for interval, _ in used], [load for _, load in used], capacity)

    def minimise(self, objective: str) -> tuple[Any, float, float]:
        """Set the objective; return it, the divisor of its values, and the offset added after the division."""
        counted, tasks = self.instance.counted, self.instance.tasks
        if not counted:
            return None, 1.0, 0.0
        if objective == "makespan":
            latest = self.cp.new_int_var(0, self.instance.horizon, "")
            self.cp.add_max_equality(latest, [self.starts[j] + tasks[j].held for j in counted])
            self.cp.minimize(latest)
            return latest, 1.0, 0.0
        if objective == "mean-wait":
            cost = sum(self.starts[j] - self.ready[j] for j in counted)
            self.cp.minimize(cost)
            return cost, float(len(counted)), 0.0
        return self._slowdown(counted)

    def _slowdown(self, counted: Sequence[int]) -> tuple[Any, float, float]:
        """Return the objective of bounded slowdowns: the slowdown - 1 is the wait beyond tau over the run time or tau.

        Factors are rounded down to whole numbers, so that the bound stays valid.
        """
        tasks, tau, horizon = self.instance.tasks, self.instance.tau, self.instance.horizon
        exact = {j: tasks[j].weight / max(tasks[j].run, tau) for j in counted}
        weight = sum(tasks[j].weight for j in counted)
        least = min((each for each in exact.values() if each), default=1.0)
        scale = min(_FINEST / least, _LARGEST / max(horizon * sum(exact.values()), 1))
        terms = []
        for j in counted:
            excess = self.starts[j] - self.ready[j]
            if tasks[j].run < tau:
                beyond = self.cp.new_int_var(0, horizon, "")
                self.cp.add(beyond >= excess + tasks[j].run - tau)
                excess = beyond
            terms.append(int(exact[j] * scale * (1 - 1e-12)) * excess)
        cost = sum(terms)
        self.cp.minimize(cost)
        return cost, scale * weight if weight else 1.0, 1.0 if weight else 0.0
