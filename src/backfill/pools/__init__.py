"""Pools start jobs for a queue: this machine, or a cluster. `base` is the whole interface between queue and pool."""
