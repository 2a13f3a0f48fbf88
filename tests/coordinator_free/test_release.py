"""Releases: what is told of their numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from coordinator_free.release import Release


@given(st.lists(st.floats() | st.sampled_from([1e200, -1e308, np.inf, -np.inf, np.nan]), max_size=5))
def test_a_release_is_finite_where_each_of_its_numbers_is(numbers: list[float]) -> None:
    assert Release(0, 0, np.array(numbers)).finite == all(np.isfinite(numbers))
