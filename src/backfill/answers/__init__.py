"""Answers about a queue: why a job waits, what would help, when jobs start, what fits now, and what happened.

`questions` are answered by a copy of the planner, `asked`. `situation` holds what a waiting job may use and lacks,
`ahead` the jobs before it; `fitting` says whether it fits now, for the daemon;
`kinds` the nodes grouped by kind. `estimates` compares estimates shown to users with the starts that came; `history`
and `replay` read the log of a queue.
"""
