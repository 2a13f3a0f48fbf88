"""What a privacy budget buys, and what releases cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coordinator_free.privacy import accounting, parameters
from coordinator_free.privacy.families import mechanism
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.release import FloatArray


@dataclass(frozen=True)
class Bought:
    """Noise that spends a budget.

    Attributes
    ----------
    mechanism
        Its family.
    multipliers
        scale / sensitivity of each release, shape (releases,).
    epsilon, delta
        What the releases cost together; never more than the budget.
    accountant
        The way of composition that found ``epsilon``.
    rho, mu
        The zCDP and the GDP parameter, for accounting elsewhere; upper bounds where the noise is not Gaussian.
    """

    mechanism: str
    multipliers: FloatArray
    epsilon: float
    delta: float
    accountant: str
    rho: float | None
    mu: float | None


def calibrate(
    family: str,
    releases: int,
    epsilon: float,
    delta: float,
    *,
    allocation: str = "uniform",
    r: float | None = None,
    dimension: int = 1,
) -> Bought:
    """Find the noise of ``family`` that spends (epsilon, delta) on so many releases.

    Parameters
    ----------
    family
        "gaussian", "laplace" or "gamma-norm".
    releases
        How many releases of one agent the budget is for.
    epsilon, delta
        The budget, over all releases.
    allocation, r
        How the releases share it (`coordinator_free.privacy.allocation.weights`).
    dimension
        Of a release; only gamma-norm noise depends on it.

    Raises
    ------
    AccountingError, AllocationError
        For a budget that cannot be spent.
    """
    multipliers = accounting.calibrate(family, releases, epsilon, delta, allocation, r=r, dimension=dimension)
    made = [mechanism(family, 1.0, float(multiplier), dimension) for multiplier in multipliers]
    found = accounting.total(made, delta)
    return Bought(
        mechanism=family,
        multipliers=multipliers,
        epsilon=found.epsilon,
        delta=delta,
        accountant=found.accountant,
        rho=parameters.zcdp(made),
        mu=parameters.gdp(made),
    )


def epsilon(mechanisms: Iterable[Mechanism | None], delta: float) -> float:
    """Epsilon at ``delta`` of all releases together; None in ``mechanisms`` is a release that costs nothing."""
    return accounting.total(mechanisms, delta).epsilon
