"""An attacker: recovers the noise in an agent's releases, replaces one of its records, and asks what can be told apart.

`Attacker` needs nothing but an agent that adds its noise to what it releases; `coordinator_free.attacks.families` has
those of algorithms that do something else, and chooses one for a run.

Rules that hold here:
- An attacker knows every record, public number, ledger and recorded release. It holds no agent's secret.
- Every draw comes from the audit's own secret and the agent's number, so that an audit can be repeated.
- A method that lacks a release raises `InversionError`; the audit reports it by agent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.algorithm import Algorithm
from coordinator_free.attacks import membership, recorded_states
from coordinator_free.attacks.charges import Account
from coordinator_free.attacks.inversion import Heard, InversionError, Inverted, NotPerturbed, Smuggled, in_force, invert
from coordinator_free.attacks.likelihood_ratio import FreshNoise, Replacement
from coordinator_free.attacks.noise_tests import NoiseRow
from coordinator_free.attacks.recorded_states import Shifts, candidates, shift_scores
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.windows import within
from coordinator_free.release import FloatArray, Release

MOST_WINDOWS: Final = 8


@dataclass(frozen=True, eq=False)
class Observed:
    """One agent as the strongest observer knows it.

    Parameters
    ----------
    make
        The agent's class.
    setting
        All that the agent was given; its secret is replaced by zeros.
    recorded
        The agent's releases by index.
    heard
        Every agent's releases, by (agent, index).
    account
        What the agent's ledger charged.
    """

    make: type[Algorithm]
    setting: Setting
    recorded: Sequence[Release]
    heard: Heard
    account: Account

    def code(self) -> Algorithm:
        """A fresh agent."""
        return self.make(self.setting)  # type: ignore[call-arg]

    def mechanisms(self) -> list[Mechanism | None]:
        """What each recorded release was charged, or should have been; None where nothing of the data is in it."""
        code = self.code()
        return [
            None if (due := code.charge(r.index)) is None else self.account.mechanism(r.index) or due
            for r in self.recorded
        ]

    def vectors(self) -> FloatArray:
        """The recorded releases, shape (T, d)."""
        return np.stack([release.vector for release in self.recorded])


@dataclass
class Recovered:
    """The noise of a run's releases, as far as it could be recovered.

    ``distances``: where the noise itself has no closed form, how far each agent's release and fresh ones are off (see
    `local_descent.distances`). ``untested``: why, by agent. ``smuggled``: what an agent's releases hold that does not
    follow from their noisy vectors, by agent. ``notes``: what a reader should know of the rows.
    """

    rows: list[NoiseRow] = field(default_factory=list)
    distances: dict[int, FloatArray] = field(default_factory=dict)
    untested: dict[int, str] = field(default_factory=dict)
    smuggled: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Attempt:
    """One attack on one agent.

    ``scores``: of runs with record ``record`` as it is, and of as many with it replaced; two for each of ``trials``,
    since one half chooses the threshold. ``attained``: the share of the charged sensitivity that the replacement uses;
    None where the attack cannot tell. ``exact``: whether the scores are log-likelihood ratios of the charged law.
    ``without_penalties``: scores of the same runs by an observer that has to fit the penalties; None where there are
    none to hide.
    """

    scores: tuple[FloatArray, FloatArray]
    record: int
    attained: float | None
    trials: int
    exact: bool = True
    without_penalties: tuple[FloatArray, FloatArray] | None = None


@dataclass(frozen=True)
class Guesses:
    """Guesses at the signs of single parties' numbers behind ``sums`` masked sums; ``p_value`` of so many right."""

    sums: int
    guesses: int
    right: int
    p_value: float


Scorer = Callable[[FloatArray, FloatArray], FloatArray]
"""Scores of candidate records x (c, p), y (c,): higher where a record looks more like a member."""


class Attacker:
    """The attack on releases that are an exact value plus noise, each held at its recorded state.

    Parameters
    ----------
    agents
        All agents of the run, in order.
    secret
        At least 16 bytes of the audit's own.
    """

    def __init__(self, agents: Sequence[Observed], secret: bytes) -> None:
        self._agents = agents
        self._secret = secret
        self._private = agents[0].setting.mechanism != "none"

    def noise(self) -> Recovered:
        """The noise in every charged release of a private run."""
        found = Recovered()
        if not self._private:
            return found
        for agent, observed in enumerate(self._agents):
            if observed.setting.problem.records == 0:
                continue
            try:
                self._recover(observed, found)
            except Smuggled as error:
                found.smuggled[agent] = str(error)
            except InversionError as error:
                found.untested[agent] = str(error)
        return found

    def attack(self, agent: int, trials: int, record: int | None) -> Attempt:
        """Tell an agent's record (None: the worst) from its worst alternative, in ``trials`` runs with either."""
        observed = self._agents[agent]
        changes = self._candidates(observed, record)
        found, change = max(
            zip(self._shifts(observed, changes), changes, strict=True), key=lambda pair: pair[0].divergence
        )
        scores = shift_scores(found, 2 * trials, self._fresh(agent))
        return Attempt(scores, change.record, found.attained, trials)

    def adversarial(self) -> Attacker:
        """The same attack on a record 0 of the worst possible value, in each agent that has records."""
        agents = [self._adversarial(one) if one.setting.problem.records else one for one in self._agents]
        return type(self)(agents, self._secret)

    def attainable(self, agent: int) -> float | None:
        """The largest share of its charged sensitivity that a record of the worst possible value moves a release by.

        The agent's own code computes what is released, with one record and with its alternative, at the recorded
        states. Above 1, no data can make the charge right. None where the release has no exact value.
        """
        observed = self._adversarial(self._agents[agent])
        found = self._shifts(observed, self._candidates(observed, 0))
        shares = [share for one in found for share in one.shares()]
        return max(shares, default=None)

    def strays(self, agent: int) -> list[tuple[int, int]]:
        """Records, each with the first release that it moves though its window leaves it out: none in a correct run.

        One record of each different window is tried, of up to `MOST_WINDOWS` of them.
        """
        observed = self._agents[agent]
        windows = observed.account.windows
        first = list({window: record for record, window in reversed(list(enumerate(windows)))}.values())
        found = []
        for record in first[:: max(1, len(first) // MOST_WINDOWS)]:
            for one in self._shifts(observed, self._candidates(observed, record)[:1]):
                moved = [
                    release.index for release, shift in zip(observed.recorded, one.shifts, strict=True) if shift.any()
                ]
                found += [(record, index) for index in moved if not within(windows[record], index)][:1]
        return found

    def residuals(self, agent: int, record: int) -> FloatArray:  # noqa: ARG002
        """What the agent's releases tell beyond all its records but one, shape (T, p)."""
        raise InversionError(f"no reconstruction for {self._agents[agent].make.name}")

    def direction(self, agent: int, record: int) -> FloatArray | None:  # noqa: ARG002
        """The direction of a record's features (p,) for an observer without the penalties; None if none are hidden."""
        return None

    def membership(self, agent: int) -> Scorer:
        """How a record is judged to be one of the agent's, from its releases alone: by its loss at the last model."""
        observed = self._agents[agent]
        model, problem = observed.recorded[-1].vector, observed.setting.problem
        if model.size != problem.x.shape[1]:
            raise InversionError(f"agent {agent} does not release a model")
        return lambda x, y: membership.loss_scores(model, x, y, problem.loss)

    def guesses(self) -> Guesses | None:
        """What an observer can tell of single parties behind masked sums; None where nothing is masked."""
        return None

    def _adversarial(self, observed: Observed) -> Observed:
        vectors = [release.vector for release in observed.recorded]
        return replace(
            observed, setting=recorded_states.adversarial(observed.setting, vectors, self._row_bound(observed))
        )

    # -- what differs between families ----------------------------------------------------------------------------

    def _recover(self, observed: Observed, found: Recovered) -> None:
        """Add one agent's noise to ``found``."""
        try:
            inverted = invert(observed.code(), observed.recorded, observed.heard)
        except NotPerturbed:
            raise InversionError(f"{observed.make.name} keeps its noise where the audit cannot see it") from None
        found.rows += _rows(observed, inverted)

    def _candidates(self, observed: Observed, record: int | None) -> list[Replacement]:
        return candidates(observed.setting, record=record, row_bound=self._row_bound(observed))

    def _shifts(self, observed: Observed, changes: Sequence[Replacement]) -> list[Shifts]:
        """What each of these replacements of a record moves in each release."""
        return recorded_states.shifts_of(
            observed.make, observed.setting, changes, observed.recorded, observed.heard, observed.mechanisms()
        )

    def _row_bound(self, observed: Observed) -> float | None:
        """The public bound of a row, where the algorithm or the data have one; clipping needs none."""
        own = observed.code().row_bound if self._private else None
        return observed.setting.row_bound if own is None else own

    def _fresh(self, agent: int) -> FreshNoise:
        return FreshNoise(self._secret + agent.to_bytes(4, "big"))


def _rows(observed: Observed, inverted: Sequence[Inverted]) -> list[NoiseRow]:
    rows = []
    before: FloatArray | None = None
    for row in inverted:
        mechanism = in_force(observed.account.mechanism(row.release.index), row.mechanism)
        if row.mechanism is not None and mechanism is not None:
            start = np.zeros_like(row.exact) if before is None or before.shape != row.exact.shape else before
            rows.append(
                NoiseRow(observed.setting.agent, row.release.index, row.noise, mechanism, drift=row.exact - start)
            )
        before = row.release.vector if row.noised is None else row.noised
    return rows
