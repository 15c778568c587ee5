"""The exact optimum of small instances: the problem (`instance`), and its solution (`solver`)."""
