"""The exact privacy of Gaussian releases (Balle and Wang 2018, Theorem 8).

A Gaussian release of sensitivity D and deviation sigma has the parameter mu = D / sigma. Releases with parameters
mu_1, ..., mu_T, each chosen in view of the earlier ones, are together exactly as private as one release with
sqrt(mu_1^2 + ... + mu_T^2) (Dong, Roth and Su 2022, Corollary 3.3). So one formula serves them all:

    delta(epsilon) = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)
"""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

_ROOT2 = math.sqrt(2.0)
_ROUND_UP = 1.0 + 1e-11  # more than the root finder's tolerance, so that a result never understates


def log_delta(epsilon: float, mu: float) -> float:
    """Log of the smallest delta for which mu-Gaussian releases are (epsilon, delta)-private; ``epsilon`` >= 0, mu > 0.

    With u = epsilon/mu - mu/2 and w = epsilon/mu + mu/2 both terms hold the factor exp(-u^2/2), since
    w^2/2 = u^2/2 + epsilon; taken out of them, nothing underflows and nothing cancels.
    """
    u, w = epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0
    if u < -5.0:
        return math.log(ndtr(-u) - 0.5 * math.exp(-u * u / 2.0) * erfcx(w / _ROOT2))
    difference = erfcx(u / _ROOT2) - erfcx(w / _ROOT2)
    return -u * u / 2.0 + math.log(difference / 2.0) if difference > 0.0 else -math.inf


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Smallest epsilon for which mu-Gaussian releases are (epsilon, ``delta``)-private; 0 < delta < 1, mu >= 0."""
    if mu == 0.0 or log_delta(0.0, mu) <= math.log(delta):
        return 0.0
    target = math.log(delta)
    upper = mu * mu / 2.0 + mu * math.sqrt(2.0 * -target) + 1e-300
    root = brentq(lambda epsilon: log_delta(epsilon, mu) - target, 0.0, upper, xtol=1e-300, rtol=1e-12)
    return float(root) * _ROUND_UP


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu for which mu-Gaussian releases are (``epsilon``, ``delta``)-private; epsilon >= 0, 0 < delta < 1."""
    target = math.log(delta)
    upper = 1.0
    while log_delta(epsilon, upper) < target:
        upper *= 2.0
    lower = upper / 2.0
    while log_delta(epsilon, lower) > target:
        lower /= 2.0
    root = brentq(lambda mu: log_delta(epsilon, mu) - target, lower, upper, xtol=1e-300, rtol=1e-12)
    return float(root) / _ROUND_UP
