"""The compiled decision core: state, queue, placement, profile, events, loop."""
