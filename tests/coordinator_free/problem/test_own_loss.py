"""A loss of a user's own is tried on made-up numbers before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coordinator_free.problem.losses import LOSSES, LossError, Squared
from coordinator_free.problem.own_loss import check_own_loss


@pytest.mark.parametrize("name", LOSSES)
def test_the_known_losses_keep_to_their_bounds(name: str) -> None:
    check_own_loss(LOSSES[name])


def made(**parts: Any) -> Squared:
    return type("Own", (Squared,), {"name": "own:OWN", **parts})()


def boom(self: Any, prediction: Any, y: Any) -> Any:
    raise RuntimeError("boom")


def positive_only(self: Any, y: Any) -> None:
    if (y <= 0).any():
        raise LossError("labels are counts")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"slope": boom}, "own:OWN.*slope raises RuntimeError: boom"),
        ({"check_labels": boom}, "check_labels raises TypeError"),
        ({"value": lambda self, z, y: np.where(z > 5, np.nan, z)}, "value is not finite at the prediction 10"),
        ({"curvature": lambda self, z, y: 2.0}, r"curvature returns the shape \(\)"),
        ({"curvature_bound": 1.0}, "curvature_bound = 1, but the curvature is 2 at the prediction"),
        ({"slope_bound": 3.0}, "slope_bound = 3, but the slope is 22 at the prediction"),
    ],
)
def test_what_does_not_hold_is_refused_by_name(parts: dict[str, Any], words: str) -> None:
    with pytest.raises(LossError, match=words):
        check_own_loss(made(**parts))


def test_labels_that_the_loss_takes_are_found() -> None:
    with pytest.raises(LossError, match=r"and the label 1$"):
        check_own_loss(made(check_labels=positive_only, value=lambda self, z, y: z * np.nan))
    none = made(check_labels=lambda self, y: positive_only(self, -abs(y)), value=boom)
    check_own_loss(none)
