"""A look at a loss of a user's own before anything runs: that it works, and keeps to the bounds that it states.

Rules that hold here:
- It is tried on made-up predictions and labels: nothing of the data is in what it raises.
- Noise is scaled by the stated bounds. A look at some points refutes a bound, and never proves one.
"""

from __future__ import annotations

import numpy as np

from coordinator_free.problem.losses import Loss, LossError
from coordinator_free.release import FloatArray

_PREDICTIONS = np.array([-10.0, -3.0, -1.0, -0.3, -0.01, 0.0, 0.01, 0.3, 1.0, 3.0, 10.0])
_LABELS = ((-1.0, 1.0), (0.0, 1.0), (1.0, 2.0))
"""Pairs of labels, of which the first pair is used that the loss takes."""
_ROUNDING = 1e-6


def check_own_loss(own: Loss) -> None:
    """Try a loss on made-up predictions and labels.

    Parameters
    ----------
    own
        The loss.

    Raises
    ------
    LossError
        If one of its functions raises, returns another shape or a number that is not finite, or exceeds the bound that
        the loss states. The cause is the error that was raised.
    """
    for labels in _LABELS:
        if _takes(own, labels):
            break
    else:
        return
    for label in labels:
        y = np.full_like(_PREDICTIONS, label)
        _tried(own, "value", y)
        _compare(own, "slope", y, own.slope_bound)
        _compare(own, "curvature", y, own.curvature_bound)


def _takes(own: Loss, labels: tuple[float, float]) -> bool:
    try:
        own.check_labels(np.array(labels))
    except LossError:
        return False
    except Exception as error:
        raise _refused(own, f"check_labels raises {type(error).__name__}: {error}") from error
    return True


def _tried(own: Loss, part: str, y: FloatArray) -> FloatArray:
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(getattr(own, part)(_PREDICTIONS.copy(), y.copy()), dtype=np.float64)
    except Exception as error:
        raise _refused(own, f"{part} raises {type(error).__name__}: {error}") from error
    if found.shape != y.shape:
        raise _refused(own, f"{part} returns the shape {found.shape} for predictions of the shape {y.shape}")
    if not np.isfinite(found).all():
        at = _PREDICTIONS[~np.isfinite(found)][0]
        raise _refused(own, f"{part} is not finite at the prediction {at:g} and the label {y[0]:g}")
    return found


def _compare(own: Loss, part: str, y: FloatArray, bound: float) -> None:
    found = np.abs(_tried(own, part, y))
    worst = int(found.argmax())
    if not found[worst] <= bound * (1.0 + _ROUNDING):
        where = f"at the prediction {_PREDICTIONS[worst]:g} and the label {y[0]:g}"
        raise _refused(own, f"{part}_bound = {bound:g}, but the {part} is {found[worst]:g} {where}")


def _refused(own: Loss, why: str) -> LossError:
    return LossError(f"learning.loss = {own.name!r}: {why}")
