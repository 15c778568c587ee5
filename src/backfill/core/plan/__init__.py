"""Planning: plans of nodes and licences, shadow times, reservations and promises, and moves of reservations."""
