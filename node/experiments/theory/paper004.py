"""The bounds of paper 004: Bellet, Guerraoui, Taziki and Tommasi (AISTATS 2018).

Rules that hold here:
- About what the theorems do not cover nothing is said: see `node.experiments.theory.descent`.
- Measured are the gaps of one run. The bounds are of their expectation, for updates of uniformly drawn agents that read
  the newest models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.agents.registry import algorithm, make
from coordinator_free.privacy.accounting import binomial, kairouz
from coordinator_free.privacy.allocation import AllocationError, weights
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.release import FloatArray
from coordinator_free.theory import coordinate_descent as theory
from node.dealing.plan import multipliers
from node.experiments.theory.bound import Bound, Reading, holds
from node.experiments.theory.descent import POINTS, Descent, descent_of
from node.experiments.theory.subject import Subject
from node.folder.profiles import left

CANDIDATES = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
"""Numbers of updates of each agent that are compared."""
_UPDATES, _GAP = "updates of all agents", "gap to the optimum"
_EXPECTED = "the expected gap; one run is measured"


def proposition_1(subject: Subject) -> list[Bound]:
    """The rate without noise. It is right as printed."""
    if subject.configuration.private:
        return []
    of = descent_of(subject)
    if of is None:
        return []
    at = of.at()
    bound = theory.convergence(of.known, of.gap(of.start), at)
    statement = f"E[Q(T) - Q*] <= C^T (Q(0) - Q*), right as printed: {_EXPECTED}"
    return [_gap_bound("convergence rate", "004, Proposition 1", statement, "as true", of, at, bound)]


def theorem_2(subject: Subject) -> list[Bound]:
    """The utility loss, with each agent charged as its code says."""
    of, charges = descent_of(subject), _charges(subject)
    if of is None or charges is None:
        return []
    at, gap, dimension = of.at(), of.gap(of.start), of.problems[0].dimension
    ticks = int(at[-1])
    rounds = range(-(-ticks // subject.agents))
    true = [theory.power(of.known, _each(charges, k, lambda m: _square(m, dimension))) for k in rounds]
    printed = [theory.printed_power(of.known, _each(charges, k, lambda m: m.scale)) for k in rounds]

    def at_ticks(powers: Sequence[float]) -> FloatArray:
        return np.repeat(np.array(powers), subject.agents)[:ticks]

    readings: tuple[tuple[Reading, str, FloatArray], ...] = (
        (
            "as published",
            "C^t sum_i (mu D_ii c_i s_i(t))^2, without the p coordinates of the noise, and with C^t reversed",
            theory.printed_utility_loss(of.known, gap, at_ticks(printed), at),
        ),
        (
            "as true",
            "C^(T-1-t) 1/2 sum_i E|mu D_ii c_i eta_i(t)|^2",
            theory.utility_loss(of.known, gap, at_ticks(true), at),
        ),
    )
    return [
        _gap_bound(
            "utility loss",
            "004, Theorem 2",
            f"E[Q(T) - Q*] <= C^T (Q(0) - Q*) + 1/(n L_min) sum_t {weight}: {_EXPECTED}",
            reading,
            of,
            at,
            bound,
        )
        for reading, weight, bound in readings
    ]


def appendix_b(subject: Subject) -> list[Bound]:
    """The best number of updates, for noise of a fixed size as published, and for a budget that updates share."""
    of, charges = descent_of(subject), _charges(subject)
    if of is None or charges is None:
        return []
    known, gap, dimension = of.known, of.gap(of.start), of.problems[0].dimension
    first = _each(charges, 0, lambda m: _square(m, dimension))
    fixed = theory.power(known, first)
    multiplier = next(m.multiplier for m in (of_agent[0] for of_agent in charges) if m is not None)
    bought = {k: _bought(subject, k) for k in CANDIDATES}
    shared = {k: fixed * (own / multiplier) ** 2 for k, own in bought.items() if own is not None}
    candidates = list(shared)
    best, least = theory.best_updates(known, gap, lambda k: shared[k], candidates)
    at = np.array(candidates, dtype=np.float64)
    found = []
    readings: tuple[tuple[Reading, str, Callable[[int], float], dict[str, float]], ...] = (
        (
            "as published",
            "with noise of the size of the first release in any number of updates, the bound only rises or only falls: "
            "it falls where Q(0) - Q* is above a/rho",
            lambda _: fixed,
            {"a/rho": theory.floor(known, fixed)},
        ),
        (
            "as true",
            "with a budget that more updates divide into noisier releases, the bound has its least value at the best T",
            lambda k: shared[k],
            {"best T of each agent": float(best), "bound at the best T": least},
        ),
    )
    for reading, statement, power_of, more in readings:
        bound = np.array([theory.after(known, gap, power_of(k), known.agents * k) for k in candidates])
        found.append(
            Bound(
                name="best number of updates",
                source="004, Appendix B",
                statement=statement,
                reading=reading,
                x_label="updates of each agent",
                y_label=_GAP,
                at=at,
                bound=bound,
                constants={**of.constants, "Q(0) - Q*": gap, **more},
            )
        )
    return found


def theorem_1(subject: Subject) -> list[Bound]:
    """Composition, of releases that are private with delta = 0: measured is the exact total in the worst case."""
    charges, delta = _charges(subject), subject.configuration.privacy.delta or 0.0
    if charges is None or delta == 0.0 or subject.configuration.privacy.mechanism == "gaussian":
        return []
    own = next(of_agent for of_agent in charges if of_agent[0] is not None)
    epsilon = 1.0 / min(m.multiplier for m in own if m is not None)
    at = np.unique(np.geomspace(1, len(own), min(len(own), POINTS)).round())
    worst = np.array([binomial(epsilon, int(k), delta) for k in at])
    one = np.array([epsilon])
    readings: tuple[tuple[Reading, str, FloatArray], ...] = (
        (
            "as published",
            "log(e + sqrt(sum eps^2 / delta)), with delta under the root",
            np.array([_printed_composition(epsilon, int(k), delta) for k in at]),
        ),
        (
            "as true",
            "log(e + sqrt(sum eps^2) / delta), Theorem 3.5 of Kairouz et al. 2015",
            np.array([kairouz(one, np.array([k]), delta) for k in at]),
        ),
    )
    return [
        Bound(
            name="composition",
            source="004, Theorem 1",
            statement=f"what T releases of the largest epsilon cost, with {what}; measured: the exact worst case",
            reading=reading,
            x_label="releases of an agent",
            y_label="epsilon in total",
            at=at,
            bound=bound,
            constants={"epsilon of a release": epsilon, "delta": delta},
            measured=worst,
            held=holds(worst, bound),
        )
        for reading, what, bound in readings
    ]


def proposition_2(subject: Subject) -> list[Bound]:
    """How the releases share a budget; measured: how they share it in this configuration."""
    of, charges = descent_of(subject), _charges(subject)
    if of is None or charges is None or of.updates < 2:
        return []
    family, r = subject.configuration.privacy.mechanism, of.known.kept
    own = next(of_agent for of_agent in charges if of_agent[0] is not None)
    used = np.array([1.0 / m.multiplier for m in own if m is not None])
    found = []
    readings: tuple[tuple[Reading, str, str], ...] = (
        ("as published", "as_published", "C^(t/3), which gives the last release the least"),
        ("as true", "increasing", "C^((T-1-t)/3), or to the power of 1/4 for Gaussian noise"),
    )
    for reading, allocation, what in readings:
        try:
            share = weights(allocation, len(used), family, r)
        except AllocationError:
            continue
        found.append(
            Bound(
                name="allocation of a budget",
                source="004, Proposition 2",
                statement=f"the share of release t goes as {what}, at the expected global time n t; no bound: measured "
                "is what the configuration does",
                reading=reading,
                x_label="release of an agent",
                y_label="share of the budget",
                at=np.arange(len(used), dtype=np.float64),
                bound=share / share.sum(),
                constants={**of.constants, "r = C^n": r},
                measured=used / used.sum(),
            )
        )
    return found


BOUNDS: tuple[Callable[[Subject], list[Bound]], ...] = (
    proposition_1,
    theorem_1,
    theorem_2,
    proposition_2,
    appendix_b,
)


def _gap_bound(
    name: str, source: str, statement: str, reading: Reading, of: Descent, at: FloatArray, bound: FloatArray
) -> Bound:
    measured = of.measured(at)
    return Bound(
        name=name,
        source=source,
        statement=statement,
        reading=reading,
        x_label=_UPDATES,
        y_label=_GAP,
        at=at,
        bound=bound,
        constants=of.constants,
        measured=measured,
        held=holds(measured, bound, 1e-12 * abs(of.least)),
    )


def _charges(subject: Subject) -> list[list[Mechanism | None]] | None:
    """What each release of each agent costs at most; None without noise, or where its size is not known."""
    configuration = subject.configuration
    if algorithm(configuration.learning.algorithm) is not CoordinateDescent:
        return None
    if not configuration.private or ":" in configuration.privacy.mechanism:
        return None
    found = []
    for agent in range(subject.agents):
        code: Any = make(configuration.learning.algorithm, subject.setting(agent))
        found.append([code.charge(index) for index in range(configuration.clock.updates)])
    return found if any(of_agent[0] is not None for of_agent in found) else None


def _each(charges: Sequence[Sequence[Mechanism | None]], index: int, of: Callable[[Mechanism], float]) -> FloatArray:
    """A number of release ``index`` of every agent, 0 where it has no noise; shape (n,)."""
    found = [of_agent[min(index, len(of_agent) - 1)] for of_agent in charges]
    return np.array([0.0 if m is None else of(m) for m in found])


def _square(mechanism: Mechanism, dimension: int) -> float:
    return theory.mean_square(mechanism.name, mechanism.scale, dimension)


def _bought(subject: Subject, updates: int) -> float | None:
    """The multiplier of each of ``updates`` releases that share the budget equally."""
    configuration = subject.configuration
    whole = configuration.privacy.epsilon or 0.0, configuration.privacy.delta or 0.0
    epsilon, _ = left(configuration, whole)
    privacy = configuration.privacy.model_copy(update={"allocation": "uniform", "r": None, "epsilon": epsilon})
    clock = configuration.clock.model_copy(update={"updates": updates})
    changed = configuration.model_copy(update={"clock": clock, "privacy": privacy})
    try:
        return float(multipliers(changed, subject.problems[0].dimension)[0])
    except ValueError:
        return None


def _printed_composition(epsilon: float, releases: int, delta: float) -> float:
    """Theorem 1 as printed."""
    squares = releases * epsilon**2
    drift = releases * epsilon * math.tanh(epsilon / 2.0)
    middle = drift + math.sqrt(2.0 * squares * math.log(math.e + math.sqrt(squares / delta)))
    last = drift + math.sqrt(2.0 * squares * math.log(1.0 / delta))
    return min(releases * epsilon, middle, last)
