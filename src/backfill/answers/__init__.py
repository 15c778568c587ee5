"""What people ask of a queue: why a job waits, what would help, when jobs start, what fits now, what was.

`questions` is answered by a copy of the planner, `asked`. `situation` is what a waiting job may use and lacks, `kinds`
are the nodes by kind. `estimates` are what people were told and whether it came so; `history` and `replay` read the log
of a queue.
"""
