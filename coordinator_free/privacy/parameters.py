"""What releases cost in the parameters of other accountings: rho of zCDP, mu of Gaussian differential privacy.

Both serve a composition outside this program. They add up over releases that are chosen in view of the earlier ones:
rho itself, and the square of mu. A release whose noise is not Gaussian is converted from its epsilon at delta = 0, so
its figures are upper bounds, and epsilon that is computed from them is larger than that of `accounting.total`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from coordinator_free.privacy.accounting import Kind, kind_of
from coordinator_free.privacy.gaussian_objective_perturbation import NAME as GAUSSIAN_OBJECTIVE
from coordinator_free.privacy.mechanism import Mechanism

LARGEST = 700.0
"""Epsilon of one release from which on its mu is not computed but infinite."""


def zcdp(mechanisms: Iterable[Mechanism | None]) -> float | None:
    """The smallest rho that is known of the releases together: they are rho-zCDP.

    A Gaussian release has rho = 1 / (2 multiplier^2), an epsilon-private one at most epsilon^2 / 2. None where a
    release has neither, which is Gaussian noise in an objective; infinite beyond what float64 holds.

    References
    ----------
    Bun and Steinke (2016), Propositions 1.4 and 1.6.
    """
    rho = 0.0
    for kind in _kinds(mechanisms):
        if kind.family == GAUSSIAN_OBJECTIVE:
            return None
        rho += 1.0 / (2.0 * kind.multiplier**2) if kind.family == "gaussian" else kind.epsilon**2 / 2.0
    return rho


def gdp(mechanisms: Iterable[Mechanism | None]) -> float | None:
    """The smallest mu that is known of the releases together: they are mu-GDP.

    A Gaussian release has mu = 1 / multiplier, an epsilon-private one at most mu = 2 Phi^-1(1 / (1 + exp(-epsilon))),
    where the trade-off curves meet on the diagonal. None for Gaussian noise in an objective.

    References
    ----------
    Dong, Roth and Su (2022), Corollary 3.3.
    """
    from scipy.special import ndtri

    squares = 0.0
    for kind in _kinds(mechanisms):
        if kind.family == GAUSSIAN_OBJECTIVE:
            return None
        if kind.family == "gaussian":
            squares += 1.0 / kind.multiplier**2
        else:
            squares += (
                (2.0 * float(ndtri(1.0 / (1.0 + math.exp(kind.epsilon))))) ** 2 if kind.epsilon < 700 else math.inf
            )
    return math.sqrt(squares)


def conversion(mechanisms: Iterable[Mechanism | None]) -> str:
    """How `zcdp` and `gdp` come to their figures, or why there are none; one line."""
    families = {kind.family for kind in _kinds(mechanisms)}
    if GAUSSIAN_OBJECTIVE in families:
        return "none: Gaussian noise in an objective has neither rho nor mu"
    converted = sorted(families - {"gaussian"})
    if not converted:
        return "exact: all noise is Gaussian"
    return (
        f"upper bounds: {', '.join(converted)} noise is converted from the epsilon of each release, "
        "rho = epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4) and mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)) "
        "(where the trade-off curves of Dong, Roth and Su 2022 meet)"
    )


def _kinds(mechanisms: Iterable[Mechanism | None]) -> Iterable[Kind]:
    return (kind_of(mechanism) for mechanism in mechanisms if mechanism is not None)
