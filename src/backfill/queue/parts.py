"""Nodes, tasks and amounts as Slurm's options ask for them, as the equal tasks of a job of the queue.

To the queue a job is a number of equal *parts*, each with a need, which sit anywhere or on nodes of their own. On a
number of nodes a part is what the job has on one of them; else it is a task. What has no such form is refused.
"""

from __future__ import annotations

from backfill.queue.words import TASKS_MAX, Unreadable

TYPE_CHECKING = False
if TYPE_CHECKING:  # what is not imported costs nothing
    from typing import Any

    Facts = dict[str, Any]

# Keys of options that say the same in other words: one from the command line replaces all of them in a script.
MEMORY = ("memory", "memory_per_cpu", "memory_per_gpu")
GPUS = ("gpus", "gpus_per_node", "gpus_per_task")
SAME = (MEMORY, GPUS)
PER_NODE = ("memory", "gpus_per_node", "cpus_least")


def parts_of(given: Facts) -> Facts:
    """The fields of a request that options about nodes, tasks and amounts mean. Raises Unreadable.

    `need` per part, and where they are not usual `tasks` (the number of parts), `spread`, and `ntasks` (the tasks that
    the options state). Licences are for the whole job.
    """
    tasks = tasks_of(given)
    nodes = _nodes(tasks, given.get("tasks_per_node", 0), *given.get("nodes", (0, 0)))
    shared, _ = given.get("gpus", (0, ""))
    if not nodes and (tasks == 1 or shared % tasks or any(name in given for name in PER_NODE)):
        nodes = 1  # such amounts belong to a node, or are not the same for each task
    parts = nodes or tasks
    found: Facts = {"need": _need(given, tasks // parts, parts) | _licences(given)}
    if parts > 1:
        found["tasks"] = parts
    if nodes > 1:
        found["spread"] = "distinct"
    if tasks != parts:
        found["ntasks"] = tasks
    return found | gpu_type_of(given)


def gpu_type_of(given: Facts) -> dict[str, str]:
    """The type of gpus that options state, if they state one."""
    kinds = {given[name][1] for name in GPUS if name in given} - {""}
    if len(kinds) > 1:
        raise Unreadable(f"gpus of {' and '.join(sorted(kinds))}; expected one type")
    return {"gpu_type": kinds.pop()} if kinds else {}


def amounts_of(given: Facts) -> dict[str, int]:
    """The amounts that options state, for a job that has them already or for one that may have any number of cpus."""
    found = {name: given[name] for name in ("cpus", "memory") if name in given}
    gpus = [given[name][0] for name in GPUS if name in given]
    return found | ({"gpus": gpus[0]} if gpus else {}) | _licences(given)


def _licences(given: Facts) -> dict[str, int]:
    found: dict[str, int] = given.get("licences", {})
    for name in found:
        if name in ("cpus", "memory", "gpus"):
            raise Unreadable(f"--licenses: {name} is not a licence")
    return found


def tasks_of(given: Facts) -> int:
    """The tasks of the job in Slurm's sense: by default one for each node, or as many as a node is to have."""
    for key, option in (("tasks", "--ntasks"), ("tasks_per_node", "--ntasks-per-node")):
        if given.get(key, 1) < 1:
            raise Unreadable(f"{option} is 0; expected 1 or more")
    tasks: int = given.get("tasks") or max(given.get("nodes", (1, 1))[0], 1) * given.get("tasks_per_node", 1)
    if tasks > TASKS_MAX:
        raise Unreadable(f"the job has {tasks:,} tasks; expected at most {TASKS_MAX:,}")
    return tasks


def _nodes(tasks: int, per_node: int, low: int, high: int) -> int:
    """The number of nodes with equally many tasks; 0 where any number will do. per_node, low, high: 0 = not stated."""
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
    found = next(fitting, 0)
    if not found:
        some = f"{low}" if low == high else f"{low} to {high}"
        most = f", at most {per_node} on each" if per_node else ""
        raise Unreadable(f"--nodes: {tasks} tasks on {some} nodes{most}; expected equally many tasks on each node")
    return found


def _need(given: Facts, tasks: int, parts: int) -> dict[str, int]:
    """The need of one of the parts, which has so many tasks."""
    gpus = _gpus(given, tasks, parts)
    cpus: int = given.get("cpus", 1)
    least = max(given.get("cpus_per_gpu", 0) * (gpus or 0), given.get("cpus_least", 0))
    need = {"cpus": max(cpus, -(-least // tasks)) * tasks}
    if "memory" in given and "memory_per_cpu" in given:
        raise Unreadable("--mem and --mem-per-cpu cannot be combined")
    memory = [given[name] * count for name, count in zip(MEMORY, (1, need["cpus"], gpus or 0), strict=True)
              if name in given]  # fmt: skip
    if memory:
        need["memory"] = memory[0]
    if gpus is not None:
        need["gpus"] = gpus
    return need


def _gpus(given: Facts, tasks: int, parts: int) -> int | None:
    """The gpus of a part; None where no option is about gpus."""
    if "gpus" in given:
        count: int = given["gpus"][0]
        if count % parts:
            raise Unreadable(f"--gpus: {count} gpus on {parts} nodes; expected equally many on each node")
        return count // parts
    if "gpus_per_node" in given:
        return int(given["gpus_per_node"][0])
    return int(given["gpus_per_task"][0] * tasks) if "gpus_per_task" in given else None
