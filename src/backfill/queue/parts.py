"""Slurm's options for nodes, tasks and amounts, translated to the equal parts of a job of the queue.

In the queue a job is a number of equal *parts*, each with a need, which run anywhere or on distinct nodes. If nodes are
requested, a part is the job's share of one node; otherwise it is a task. A request without such a form is refused.
"""

from __future__ import annotations

from backfill.queue.words import TASKS_MAX, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:  # imports for types only
    from typing import Any

    Facts = dict[str, Any]

# Keys of options with the same meaning: one on the command line replaces all of them in a script.
MEMORY = ("memory", "memory_per_cpu", "memory_per_gpu")
GPUS = ("gpus", "gpus_per_node", "gpus_per_task")
SAME = (MEMORY, GPUS)
PER_NODE = ("memory", "gpus_per_node", "cpus_least")


def parts_of(request: Facts) -> Facts:
    """Return the fields of a request given by options for nodes, tasks and amounts. Raises Unreadable.

    `need` per part, and if not default `tasks` (the number of parts), `spread`, and `ntasks` (the tasks that the
    options state). Licences are for the whole job.
    """
    tasks = tasks_of(request)
    nodes = _nodes(tasks, request.get("tasks_per_node", 0), *request.get("nodes", (0, 0)))
    shared, _ = request.get("gpus", (0, ""))
    if not nodes and (tasks == 1 or shared % tasks or any(name in request for name in PER_NODE)):
        nodes = 1  # such amounts are per node, or differ between tasks
    parts = nodes or tasks
    result: Facts = {"need": _need(request, tasks // parts, parts) | _licences(request)}
    if parts > 1:
        result["tasks"] = parts
    if nodes > 1:
        result["spread"] = "distinct"
    if tasks != parts:
        result["ntasks"] = tasks
    return result | gpu_type_of(request)


def gpu_type_of(request: Facts) -> dict[str, str]:
    """Return the type of gpus that options state, if any."""
    kinds = {request[name][1] for name in GPUS if name in request} - {""}
    if len(kinds) > 1:
        raise Unreadable(f"gpus of {' and '.join(sorted(kinds))}; expected one type")
    return {"gpu_type": kinds.pop()} if kinds else {}


def amounts_of(request: Facts) -> dict[str, int]:
    """Return the amounts that options state, for a job that has them already or that may have any number of cpus."""
    amounts = {name: request[name] for name in ("cpus", "memory") if name in request}
    gpus = [request[name][0] for name in GPUS if name in request]
    return amounts | ({"gpus": gpus[0]} if gpus else {}) | _licences(request)


def _licences(request: Facts) -> dict[str, int]:
    licences: dict[str, int] = request.get("licences", {})
    for name in licences:
        if name in ("cpus", "memory", "gpus"):
            raise Unreadable(f"--licenses: {name} is not a licence")
    return licences


def tasks_of(request: Facts) -> int:
    """Return the tasks of the job in Slurm's sense: by default one per node, or as many as a node is to have."""
    for key, option in (("tasks", "--ntasks"), ("tasks_per_node", "--ntasks-per-node")):
        if request.get(key, 1) < 1:
            raise Unreadable(f"{option} is 0; expected 1 or more")
    tasks: int = request.get("tasks") or max(request.get("nodes", (1, 1))[0], 1) * request.get("tasks_per_node", 1)
    if tasks > TASKS_MAX:
        raise Unreadable(f"the job has {tasks:,} tasks; expected at most {TASKS_MAX:,}")
    return tasks


def _nodes(tasks: int, per_node: int, low: int, high: int) -> int:
    """Return the number of nodes with equally many tasks; 0 if any number will do.

    per_node, low, high: 0 = not stated.
    """
    if not low:
        if per_node > tasks or not per_node:
            return 0
        if tasks % per_node:
            raise Unreadable(f"--ntasks {tasks} with --ntasks-per-node {per_node}: expected a multiple of it")
        return tasks // per_node
    if low == 1 < high and tasks <= high and (not per_node or tasks <= per_node):
        return 0
    fitting = (
        n for n in range(low, min(high, tasks) + 1) if tasks % n == 0 and (not per_node or tasks // n <= per_node)
    )
    count = next(fitting, 0)
    if not count:
        span = f"{low}" if low == high else f"{low} to {high}"
        most = f", at most {per_node} on each" if per_node else ""
        raise Unreadable(f"--nodes: {tasks} tasks on {span} nodes{most}; expected equally many tasks on each node")
    return count


def _need(request: Facts, tasks: int, parts: int) -> dict[str, int]:
    """Return the need of one of the parts, which has tasks / parts tasks."""
    gpus = _gpus(request, tasks, parts)
    cpus: int = request.get("cpus", 1)
    least = max(request.get("cpus_per_gpu", 0) * (gpus or 0), request.get("cpus_least", 0))
    need = {"cpus": max(cpus, -(-least // tasks)) * tasks}
    if "memory" in request and "memory_per_cpu" in request:
        raise Unreadable("--mem and --mem-per-cpu cannot be combined")
    memory = [request[name] * count for name, count in zip(MEMORY, (1, need["cpus"], gpus or 0), strict=True)
              if name in request]  # fmt: skip
    if memory:
        need["memory"] = memory[0]
    if gpus is not None:
        need["gpus"] = gpus
    return need


def _gpus(request: Facts, tasks: int, parts: int) -> int | None:
    """Return the gpus of a part; None if no option requests gpus."""
    if "gpus" in request:
        count: int = request["gpus"][0]
        if count % parts:
            raise Unreadable(f"--gpus: {count} gpus on {parts} nodes; expected equally many on each node")
        return count // parts
    if "gpus_per_node" in request:
        return int(request["gpus_per_node"][0])
    return int(request["gpus_per_task"][0] * tasks) if "gpus_per_task" in request else None
