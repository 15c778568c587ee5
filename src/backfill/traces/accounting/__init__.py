"""Accounting logs of batch systems as workloads: one module per system; `records` holds what they share."""
