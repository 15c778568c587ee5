"""The exact optimum of small instances: what has to be decided (`instance`), and how it is found (`solver`)."""
