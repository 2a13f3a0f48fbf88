"""Settings as typed values: what is accepted, what a refusal says, and what a document that lacks a key becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Lt

from coordinator_free.settings import Count, Positive, SettingError, Settings


@dataclass(frozen=True, kw_only=True)
class Own(Settings):
    """One setting of each type."""

    pull: Positive
    part: Annotated[float, Ge(0), Lt(1)] = 0.5
    steps: Count | None = None
    kind: Literal["one", "two"] = "one"
    last: bool = False
    name: str | None = None
    sizes: Sequence[int] = ()


def test_a_key_that_is_missing_or_none_has_its_default_and_others_are_left_alone() -> None:
    assert Own.of({"pull": 2, "kind": None, "else": object()}) == Own(pull=2.0)
    assert isinstance(Own.of({"pull": 2}).pull, float)


def test_every_type_is_read() -> None:
    given: dict[str, Any] = {"part": 0.0, "steps": 3, "kind": "two", "last": True, "name": "a", "sizes": [1, 2]}
    assert Own.of({"pull": 1e-9, **given}) == Own(pull=1e-9, **given)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({}, "learning.pull is missing: accepted: a finite number, > 0"),
        ({"pull": 0}, "learning.pull = 0: accepted: a finite number, > 0"),
        ({"pull": float("nan")}, "learning.pull = nan: accepted: a finite number, > 0"),
        ({"pull": float("inf")}, "learning.pull = inf: accepted: a finite number, > 0"),
        ({"pull": "fast"}, "learning.pull = 'fast': accepted: a finite number, > 0"),
        ({"pull": True}, "learning.pull = True: accepted: a finite number, > 0"),
        ({"part": 1.0}, "learning.part = 1.0: accepted: a finite number, >= 0, < 1"),
        ({"steps": 0}, "learning.steps = 0: accepted: a whole number, >= 1"),
        ({"steps": 1.5}, "learning.steps = 1.5: accepted: a whole number, >= 1"),
        ({"kind": "three"}, 'learning.kind = \'three\': accepted: "one", "two"'),
        ({"last": 1}, "learning.last = 1: accepted: true, false"),
        ({"name": 1}, "learning.name = 1: accepted: a text"),
    ],
)
def test_a_refusal_names_the_setting_the_value_and_what_is_accepted(given: dict[str, Any], line: str) -> None:
    with pytest.raises(SettingError) as caught:
        Own.of(given if given == {} or "pull" in given else {"pull": 1.0, **given})
    assert str(caught.value) == line
