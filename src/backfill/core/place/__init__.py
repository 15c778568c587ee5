"""Where a job sits: shapes of jobs, nodes that can hold them, gangs, and which nodes are chosen."""
