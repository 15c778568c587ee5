"""How Slurm distributes the tasks of a job over the nodes on which a log says that it ran."""

from typing import Any


def tasks_on(state: Any, job: int, nodes: list[int]) -> tuple[tuple[int, int], ...]:
    """Return how Slurm distributes the tasks of a job over its nodes: each gets as many as fit, but one is left for
    every later node.
    """
    left, pairs = int(state.jobs.tasks[job]), list[tuple[int, int]]()
    for i, node in enumerate(nodes):
        fit = [
            int(state.free.nodes[node, k]) // int(amount)
            for k, amount in enumerate(state.jobs.demand[job].tolist())
            if amount
        ]
        tasks = max(min([*fit, left - (len(nodes) - 1 - i)]), 1)
        pairs.append((node, min(tasks, left) if i + 1 < len(nodes) else left))
        left -= pairs[-1][1]
    return tuple((node, tasks) for node, tasks in pairs if tasks > 0)
