"""Whoever starts jobs for a queue: this machine, or a cluster. `base` is all that the queue knows of them."""
