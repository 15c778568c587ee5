"""Accounting logs of batch systems as workloads: one module per system, `records` for what they share."""
