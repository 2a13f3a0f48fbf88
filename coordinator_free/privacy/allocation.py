"""How a budget is shared among an agent's releases.

What adds up over releases is epsilon for Laplace and gamma-norm noise and 1/scale^2 for Gaussian noise. An update
forgets early noise and keeps late noise: with weights r^(T-1-k) on the noise of release k of T, the best split is

    epsilon_k ~ r^((T-1-k)/3)      where epsilons add,
    1/sigma_k ~ r^((T-1-k)/4)      for Gaussian noise,

which grows over time. Proposition 2 of Bellet et al. (2018) has the weights in reverse.
"""

from __future__ import annotations

import numpy as np

from coordinator_free.privacy.noise import FloatArray

ALLOCATIONS = ("uniform", "increasing", "as_published")
_SMALLEST = 1e-6


class AllocationError(ValueError):
    """A budget cannot be shared as asked."""


def weights(allocation: str, releases: int, mechanism: str, r: float | None = None) -> FloatArray:
    """Weights of epsilon_k, for Gaussian noise of 1/sigma_k; shape (releases,), the largest is 1.

    Parameters
    ----------
    allocation
        ``uniform``; ``increasing``, as above; ``as_published``, epsilon_k ~ r^(k/3) (r^(k/4) for Gaussian noise), which
        decreases and is worse than ``uniform``.
    releases
        How many share the budget.
    mechanism
        Decides between epsilon_k and 1/sigma_k.
    r
        In (0, 1]: how much of a release's noise the next update keeps. A number to be tuned: the theoretical one is so
        close to 1 that nothing changes.

    Raises
    ------
    AllocationError
        The allocation is unknown, or ``r`` is missing or outside its range.

    References
    ----------
    Bellet et al. (2018), Proposition 2, for ``as_published``.
    """
    if allocation not in ALLOCATIONS:
        raise AllocationError(f"privacy.allocation = {allocation!r}; accepted: {', '.join(ALLOCATIONS)}")
    if releases < 1:
        raise AllocationError(f"releases = {releases}; accepted: 1 and more")
    if allocation == "uniform":
        return np.ones(releases)
    if r is None or not 0.0 < r <= 1.0:
        raise AllocationError(f"privacy.r = {r}; allocation {allocation!r} needs a number above 0 and up to 1")
    root = 4.0 if mechanism == "gaussian" else 3.0
    later = np.arange(releases - 1, -1, -1) if allocation == "increasing" else np.arange(releases)
    if r ** ((releases - 1) / root) < _SMALLEST:
        least = _SMALLEST ** (root / (releases - 1))
        raise AllocationError(
            f"privacy.r = {r}: over {releases} releases some would get less than a millionth of the largest share; "
            f"accepted: {least:.4g} and more"
        )
    share: FloatArray = r ** (later / root)
    return share
