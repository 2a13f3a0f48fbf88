"""The bounds of paper 001: Zhang, Khalili and Liu (ICML 2018)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from coordinator_free.agents.admm.penalty_perturbation import PenaltyPerturbation, published_cost
from coordinator_free.agents.registry import algorithm
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.objective_perturbation import NAME, ObjectivePerturbation
from coordinator_free.release import FloatArray
from coordinator_free.theory import admm_convergence as theory
from node.experiments.theory.bound import Bound, Reading
from node.experiments.theory.consensus import Consensus, consensus_of
from node.experiments.theory.subject import Subject

_RATE = "delta(t): 1 + delta(t) is how much closer a round comes"
_TOLERANCE = 1e-7
_ACCOUNTED = 6
"""Numbers of rounds whose total is worked out."""


def convergence(subject: Subject) -> list[Bound]:
    """Theorem 3.1's inequality, Theorem 3.2, and its closed bound as printed and as it is true."""
    of = consensus_of(subject)
    if of is None or not of.rounds.size:
        return []
    return [*_inequality(of), *_rates(of)]


def _inequality(of: Consensus) -> list[Bound]:
    inner = of.inner_products()
    if inner is None:
        return []
    return [
        Bound(
            name="inner product",
            source="001, Theorem 3.1, Eq. 19",
            statement="<Z(t) - Z*, J(t) (Z(t) - Z(t-1))> <= 0 in every round, shown over |Z(t) - Z*|_J^2"
            + ("" if of.equal_penalties else _GAP),
            reading="as true" if of.equal_penalties else "as published",
            x_label="round",
            y_label="inner product over the squared distance",
            at=of.rounds.astype(np.float64),
            bound=np.zeros(len(of.rounds)),
            constants=_constants(of),
            measured=inner,
            held=bool((inner <= _TOLERANCE).all()),
        )
    ]


_GAP = "; the proof does not cover penalties that differ between agents, because J(t) is then not symmetric"


def _rates(of: Consensus) -> list[Bound]:
    network, theta, ones = of.subject.network, of.theta, np.ones(of.subject.agents)
    least, largest = of.rho, float(of.smoothnesses.max())
    lines: tuple[tuple[str, str, Reading, str, Callable[[FloatArray], theory.Rate]], ...] = (
        (
            "largest rate",
            "001, Theorem 3.2, Eq. 21 and 22",
            "as true" if of.equal_penalties else "as published",
            "(1 + delta(t)) |Z(t) - Z*|_J^2 <= |Z(t-1) - Z*|_J^2 for every delta(t) of Eq. 21 and 22"
            + ("" if of.equal_penalties else _GAP),
            lambda eta: theory.theorem_rate(network, eta, theta, of.rho * ones, of.smoothnesses),
        ),
        (
            "closed rate",
            "001, Theorem 3.2, Eq. 23",
            "as published",
            "the same for delta(t) with the numerator 2 m_o + 2 sigma_min((W - theta I)(D - A)), which is false in "
            "general: the matrix is singular where agents agree",
            lambda eta: theory.published_rate_bound(network, eta, theta, least, largest),
        ),
        (
            "closed rate",
            "001, Theorem 3.2, Eq. 23",
            "as true",
            "the same for delta(t) with the numerator 2 m_o",
            lambda eta: theory.rate_bound(network, eta, theta, least, largest),
        ),
    )
    measured = of.rates()
    found = []
    for name, source, reading, statement, rate in lines:
        by_penalties: dict[bytes, theory.Rate] = {}
        rates = []
        for t in of.rounds:
            eta = of.penalties[:, t]
            if eta.tobytes() not in by_penalties:
                by_penalties[eta.tobytes()] = rate(eta)
            rates.append(by_penalties[eta.tobytes()])
        bound = np.array([one.delta for one in rates])
        found.append(
            Bound(
                name=name,
                source=source,
                statement=statement,
                reading=reading,
                x_label="round",
                y_label=_RATE,
                at=of.rounds.astype(np.float64),
                bound=bound,
                constants={**_constants(of), "mu (the best, last round)": rates[-1].mu},
                unspecified=("mu (the best, last round)",),
                measured=measured,
                held=None if measured is None else bool((bound <= measured * (1.0 + _TOLERANCE)).all()),
            )
        )
    return found


def _constants(of: Consensus) -> dict[str, float]:
    last = theory.spectrum(of.subject.network, of.penalties[:, -1], of.theta)
    return {
        "theta": of.theta,
        "m_o": of.rho,
        "M_O": float(of.smoothnesses.max()),
        "sigma_min(D - A)": last.connectivity,
        "sigma_max(W (D + A)), last round": last.mixing,
        "sigma_max((W - theta I)(D - A)), last round": last.excess,
        "sigma_min((W - theta I)(D - A)), last round": last.least_excess,
    }


# --- Theorem 4.1 -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Perturbed:
    """An agent of penalty perturbation: its charges by round, and what they cost as printed (T,)."""

    charges: Sequence[ObjectivePerturbation]
    printed: FloatArray
    curvature: float
    """(B/C) (rho + 2 theta N): the theorem's condition asks for more than 2 c1."""


def privacy(subject: Subject) -> list[Bound]:
    """Theorem 4.1, as printed and with the tight cost of each round; beside a run, the accountant's total at delta."""
    kind = algorithm(subject.configuration.learning.algorithm)
    if not issubclass(kind, PenaltyPerturbation) or not subject.configuration.private:
        return []
    agents = [_perturbed(kind, subject, i) for i in range(subject.agents) if subject.records[i]]
    if not agents or any(agent is None for agent in agents):
        return []
    known = [agent for agent in agents if agent is not None]
    rounds = len(known[0].charges)
    at = np.unique(np.linspace(1, rounds, min(rounds, _ACCOUNTED)).astype(np.int64))
    delta = subject.configuration.privacy.delta or 0.0
    tight = np.max([np.cumsum([charge.epsilon for charge in agent.charges]) for agent in known], axis=0)
    printed = np.max([np.cumsum(agent.printed) for agent in known], axis=0)
    measured = None
    if subject.run is not None and delta > 0.0:
        worst = max(known, key=lambda agent: sum(charge.epsilon for charge in agent.charges))
        measured = np.array([total(worst.charges[:t], delta).epsilon for t in at])
    curvature, c1 = min(agent.curvature for agent in known), subject.problems[0].loss.curvature_bound
    constants = {"c1": c1, "least (B/C)(rho + 2 theta V)": curvature, "delta": delta}
    lines: tuple[tuple[Reading, str, FloatArray], ...] = (
        (
            "as published",
            "beta = max_i sum_t C (1.4 c1 + alpha_i(t)) / (eta_i(t) V_i B_i), at delta 0; it needs 2 c1 < "
            f"(B/C)(rho + 2 theta V), which {'holds' if 2.0 * c1 < curvature else 'does not hold'} here",
            printed,
        ),
        ("as true", "max_i sum_t ln(1 + c1/k_i(t)) + C alpha_i(t) / (eta_i(t) V_i B_i), at delta 0", tight),
    )
    return [
        Bound(
            name="total privacy loss",
            source="001, Theorem 4.1, Eq. 26",
            statement=f"{statement}; measured: what the accountant says at delta of the agent that spends most",
            reading=reading,
            x_label="rounds",
            y_label="epsilon of the rounds so far",
            at=at.astype(np.float64),
            bound=bound[at - 1],
            constants=constants,
            measured=measured,
            held=None if measured is None else bool((measured <= bound[at - 1] * (1.0 + _TOLERANCE)).all()),
        )
        for reading, statement, bound in lines
    ]


def _perturbed(kind: type[PenaltyPerturbation], subject: Subject, i: int) -> _Perturbed | None:
    """None where the theorem is silent: other noise than its own, or rows or gradients longer than 1."""
    agent, public = kind(subject.setting(i)), subject.public[i]
    charges = [charge for t in range(public.releases) if (charge := agent.charge(t)) is not None]
    if agent.row_bound > 1.0 + 1e-9 or not all(charge.describe()["name"] == NAME for charge in charges):
        return None
    penalties, theta, rho = agent.schedule
    degree, records, capacity = len(public.neighbours), public.records, agent.capacity
    loss = subject.problems[i].loss
    printed = [
        published_cost(2.0 * eta * degree / charge.scale, eta, degree, records, capacity, loss.curvature_bound)
        for eta, charge in zip(penalties, charges, strict=True)
        if isinstance(charge, ObjectivePerturbation)
    ]
    own = [charge for charge in charges if isinstance(charge, ObjectivePerturbation)]
    return _Perturbed(own, np.array(printed), records / capacity * (rho + 2.0 * theta * degree))


BOUNDS: tuple[Callable[[Subject], list[Bound]], ...] = (convergence, privacy)
