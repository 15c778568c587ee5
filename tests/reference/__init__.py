"""Slow, readable twins of the compiled policies: plain Python, each rule as its specification words it.

`world.run` is the way in; `table.check` runs a scenario written as a table; `workloads` makes random ones.
"""

import pytest

pytest.register_assert_rewrite(f"{__name__}.table")
