"""Group privacy: what releases cost for datasets that differ in several records (Zhang and Zhu 2017, Cor. 1.2, 2.2).

Rules that hold here:
- Additive noise: replacing c records one after another moves the exact value by at most c sensitivities, given all
  earlier releases. So the group's cost is that of the same noise with c times the sensitivity, composed as such; for
  Gaussian noise its parameter times c (Dong, Roth and Su 2022, Theorem 2.14).
- Other mechanisms: (epsilon, delta) for one record gives (c epsilon, delta (e^(c epsilon) - 1) / (e^epsilon - 1)) for
  c of them (Dwork and Roth 2014, in the proof of Theorem 2.2), at the delta of one record that costs least. The noise
  in an objective is among them: the law of its loss holds in the plane of two records, and c records span more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.mechanisms import GammaNorm, Gaussian, Laplace

GROUPS: Final = (2, 5, 10)
"""Numbers of records of a group whose epsilon is shown."""
_HALVINGS = 6
"""Of the interval in which the logarithm of the delta of one record is searched."""


def group_epsilon(mechanisms: Iterable[Mechanism | None], delta: float, records: int) -> float:
    """Epsilon of all releases together, at ``delta``, for datasets that differ in ``records`` records.

    Parameters
    ----------
    mechanisms
        One for each release. None costs nothing.
    delta
        From 0 to below 1.
    records
        1 and more; Zhang and Zhu's c2.

    Returns
    -------
    float
        An upper bound; infinite where ``delta`` is 0 and a release has no epsilon of its own.
    """
    if records < 1:
        raise ValueError(f"records = {records}; accepted: 1 and more")
    charged = [mechanism for mechanism in mechanisms if mechanism is not None]
    if records == 1 or not charged:
        return total(charged, delta).epsilon
    together = [_for_group(mechanism, records) for mechanism in charged]
    if None not in together:
        return total(together, delta).epsilon
    return _converted(charged, delta, records)


def _for_group(mechanism: Mechanism, records: int) -> Mechanism | None:
    """The same noise with the sensitivity of so many records; None where that does not describe the mechanism."""
    if isinstance(mechanism, (Laplace, Gaussian, GammaNorm)):
        return replace(mechanism, sensitivity=records * mechanism.sensitivity)
    return None


def _converted(charged: list[Mechanism], delta: float, records: int) -> float:
    plain = total(charged, 0.0).epsilon
    best = records * plain
    if delta == 0.0:
        return best
    high = math.log(delta)
    low = high - records * (plain if math.isfinite(plain) else 50.0) - math.log(records)
    low = max(low, math.log(1e-250))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        each = total(charged, math.exp(middle)).epsilon
        if middle + _log_growth(each, records) <= math.log(delta):
            best, low = min(best, records * each), middle
        else:
            high = middle
    return best


def _log_growth(epsilon: float, records: int) -> float:
    """ln of (e^(c epsilon) - 1) / (e^epsilon - 1): what delta grows by."""
    if epsilon == 0.0:
        return math.log(records)
    return (records - 1) * epsilon + math.log(-math.expm1(-records * epsilon)) - math.log(-math.expm1(-epsilon))
