"""Placement of jobs: shapes of jobs, nodes that can hold them, gangs, and the rules that choose nodes."""
