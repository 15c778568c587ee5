"""What will be: plans of nodes and licences, shadow times, reserved starts and promises, and moves of them."""
