"""What a privacy budget buys, before anything runs: the noise, the totals, and the same for other numbers of updates.

Nothing is run, charged or written, and no figure depends on a record's value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coordinator_free.agents.registry import algorithm, make
from coordinator_free.algorithm import Algorithm
from coordinator_free.privacy.accounting import WITHOUT_EPSILON, Total, kairouz, total
from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.group import GROUPS, group_epsilon
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.observer import epsilons_of_a_sum
from coordinator_free.privacy.parameters import conversion, gdp, zcdp
from coordinator_free.privacy.windows import Window, Windows, most_used, within
from node.configuration.sections import Configuration
from node.dealing.plan import multipliers
from node.dealing.preparation import Preparation, prepare
from node.dealing.proposal import Proposal, propose
from node.dealing.reservation import spent_before
from node.folder.dealing_note import EarlierRun, Together
from node.folder.profiles import is_learned
from node.folder.shard import setting

if TYPE_CHECKING:
    from coordinator_free.privacy.observers import Distance

COUNTS = (1, 10, 100, 1000)
"""Numbers of updates to compare, besides the configured one."""

Plan = Sequence[Mechanism | None]


@dataclass(frozen=True)
class Release:
    """The noise of one release; ``epsilon`` is that of the release alone, None where it has none without delta."""

    mechanism: str
    multiplier: float
    epsilon: float | None


@dataclass(frozen=True)
class AllReleases:
    """What all releases of one agent cost; None where an accountant does not apply."""

    epsilon: float
    accountant: str
    plain_sum: float | None
    kairouz_theorem_3_5: float | None
    exact: float | None
    zcdp_rho: float | None
    gdp_mu: float | None
    conversion: str


@dataclass(frozen=True)
class Group:
    """Epsilon of all releases for datasets that differ in so many records; None where there is none."""

    records: int
    epsilon: float | None


@dataclass(frozen=True)
class Arrivals:
    """Records that arrive during the run: how many, and what one of them is charged, first and last to arrive."""

    from_the_start: int
    arriving: int
    uses: int
    """Releases that use a record at most."""
    epsilon_first: float
    epsilon_last: float


@dataclass(frozen=True)
class OneAgent:
    """The last release of one agent, and how many records it uses."""

    agent: int
    name: str
    records: int
    sensitivity: float
    scale: float
    gradient_noise_per_clip: float | None
    """Of a mean of clipped gradients; None where the release is not made of one."""


@dataclass(frozen=True)
class ForUpdates:
    """The last release under the same budget, for another number of updates; ``refused`` says why there is none."""

    updates: int
    multiplier: float | None
    epsilon: float | None
    refused: str | None = None


@dataclass(frozen=True)
class TheoremAlone:
    """What Theorem 3.5 alone would have allowed."""

    epsilon_of_last_release: float
    noise_factor: float


@dataclass(frozen=True)
class OnTheseData:
    """What earlier runs spent on the same records, and the total with this run."""

    earlier_runs: Sequence[EarlierRun]
    together: Together


@dataclass(frozen=True)
class OtherObservers:
    """Epsilon towards an agent that receives only what its neighbours release: no promise, and never mixed into it."""

    delta: float
    links_have_keys: bool
    not_given: str | None
    assumes: Sequence[str]
    observers: Sequence[int]
    distances: Sequence[Distance]


@dataclass(frozen=True)
class Bought:
    """Everything that ``sottovoce budget`` shows."""

    mechanism: str
    allocation: str
    budget: Mapping[str, float]
    record: str
    updates: int
    charged_releases: int
    release: Mapping[str, Release]
    total: AllReleases
    groups: Sequence[Group]
    observers: Mapping[str, float | None] | None
    other_observers: OtherObservers | None
    theorem_alone: TheoremAlone | None
    agents: Sequence[OneAgent]
    updates_compared: Sequence[ForUpdates]
    on_these_data: OnTheseData | None
    proposal: Proposal
    warnings: Sequence[str]
    arrivals: Arrivals | None = None
    """None where every record is there from the start."""


def bought(configuration: Configuration, *, observers: bool = False) -> Bought:
    """What the budget of a configuration buys; raises ``ValueError`` if it has none."""
    if not configuration.private:
        raise ValueError(
            'privacy.mechanism = "none": there is no budget; accepted: a mechanism (laplace, gaussian, gamma-norm)'
        )
    if observers and is_learned(configuration):
        raise ValueError(
            '--observers: topology.kind = "private-similarity" has no graph before a run is dealt, and the figures of '
            "single agents rest on it; leave it out"
        )
    preparation = prepare(configuration)
    configuration = preparation.configuration
    agents = [_agent_of(preparation, agent) for agent in range(preparation.agents)]
    planned = [_plan(preparation, agent, code) for agent, code in enumerate(agents)]
    plans = {agent: plan for agent, plan in enumerate(planned) if any(mechanism is not None for mechanism in plan)}
    if not plans:
        raise ValueError("data: no agent has any records, so there is nothing to spend a budget on")
    delta = configuration.privacy.delta or 0.0
    used = {agent: most_used(enumerate(plan), agents[agent].windows) for agent, plan in plans.items()}
    totals = {agent: total(plan, delta) for agent, plan in used.items()}
    worst = max(totals, key=lambda agent: totals[agent].epsilon)
    charged = [mechanism for mechanism in plans[worst] if mechanism is not None]
    one_record = [mechanism for mechanism in used[worst] if mechanism is not None]
    arrivals = _arrivals(plans, [code.windows for code in agents], delta)
    return Bought(
        mechanism=configuration.privacy.mechanism,
        allocation=configuration.privacy.allocation,
        budget={"epsilon": configuration.privacy.epsilon or 0.0, "delta": delta},
        record=preparation.dealt.record,
        updates=configuration.clock.updates,
        charged_releases=len(charged),
        release={"first": _release(charged[0]), "last": _release(charged[-1])},
        total=_all(totals[worst], one_record),
        groups=[_group(charged, delta, records) for records in GROUPS] if arrivals is None else [],
        observers=_observers(preparation, totals[worst].epsilon, delta),
        other_observers=_other_observers(preparation, agents) if observers else None,
        theorem_alone=_theorem_alone(one_record, totals[worst].epsilon, delta),
        agents=[
            _one(preparation, agent, plans[agent], agents[agent].windows) for agent in _sizes(preparation, list(plans))
        ],
        updates_compared=[_compared(configuration, preparation, count) for count in _counts(configuration)],
        on_these_data=_on_these_data(preparation, planned),
        proposal=propose(preparation),
        warnings=preparation.warnings,
        arrivals=arrivals,
    )


def _arrivals(plans: Mapping[int, Plan], windows: Sequence[Windows], delta: float) -> Arrivals | None:
    """What the records are charged that are there first, and those that arrive last; None where all are there."""
    known = [(agent, window) for agent in plans for window in windows[agent]]
    if not known:
        return None

    def epsilon(agent: int, window: Window) -> float:
        return total(most_used(enumerate(plans[agent]), [window]), delta).epsilon

    start = sum(window[0] == 0 for _, window in known)
    return Arrivals(
        from_the_start=start,
        arriving=len(known) - start,
        uses=max(last - first + 1 for _, (first, last) in known),
        epsilon_first=epsilon(*min(known, key=lambda one: one[1])),
        epsilon_last=epsilon(*max(known, key=lambda one: one[1])),
    )


def _on_these_data(preparation: Preparation, planned: Sequence[Plan]) -> OnTheseData | None:
    """None where no run was noted yet."""
    found = spent_before(preparation, planned, Path("runs") / preparation.configuration.run.name)
    return None if found is None else OnTheseData(found.runs, found.together)


def _agent_of(preparation: Preparation, agent: int) -> Algorithm:
    public = preparation.public(agent)
    # No noise is drawn here: any secret will do.
    return make(public.algorithm, setting(preparation.rows(agent), public, bytes(32)))


def _plan(preparation: Preparation, agent: int, code: Algorithm) -> list[Mechanism | None]:
    releases = [code.charge(index) for index in range(preparation.public(agent).releases)]
    return [*preparation.profile_charges(agent), *releases]


def _observers(preparation: Preparation, epsilon: float, delta: float) -> dict[str, float | None] | None:
    """Epsilon of all masked sums for each observer; None where sums are not masked."""
    privacy = preparation.configuration.privacy
    if privacy.observer != "sum":
        return None
    noisy = sum(len(shard.y) > 0 for shard in preparation.dealt.shards)
    seen = epsilons_of_a_sum(gaussian_mu(epsilon, delta), delta, noisy, privacy.colluders, privacy.dropouts)
    return {observer: value if math.isfinite(value) else None for observer, value in seen.items()}


def _other_observers(preparation: Preparation, agents: list[Algorithm]) -> OtherObservers:
    from coordinator_free.privacy.observers import ASSUMES, NoSurrogate, view

    configuration = preparation.configuration
    delta, keys = configuration.privacy.delta or 0.0, configuration.encrypted
    try:
        seen = view(agents, configuration.clock.updates, preparation.network, delta)
    except NoSurrogate as error:
        return OtherObservers(delta, keys, f"{configuration.learning.algorithm}: {error}", (), (), ())
    return OtherObservers(delta, keys, None, ASSUMES, seen.observers, seen.distances)


def _release(mechanism: Mechanism) -> Release:
    pure = mechanism.name not in WITHOUT_EPSILON
    return Release(mechanism.name, mechanism.multiplier, 1.0 / mechanism.multiplier if pure else None)


def _all(found: Total, charged: list[Mechanism]) -> AllReleases:
    return AllReleases(
        epsilon=found.epsilon,
        accountant=found.accountant,
        plain_sum=found.plain,
        kairouz_theorem_3_5=found.kairouz,
        exact=found.exact,
        zcdp_rho=zcdp(charged),
        gdp_mu=gdp(charged),
        conversion=conversion(charged),
    )


def _group(charged: list[Mechanism], delta: float, records: int) -> Group:
    epsilon = group_epsilon(charged, delta, records)
    return Group(records, epsilon if math.isfinite(epsilon) else None)


def _theorem_alone(charged: list[Mechanism], epsilon: float, delta: float) -> TheoremAlone | None:
    """None for Gaussian noise, which Theorem 3.5 does not cover."""
    from scipy.optimize import brentq

    if delta == 0.0 or any(mechanism.name in WITHOUT_EPSILON for mechanism in charged):
        return None
    each = np.array([1.0 / mechanism.multiplier for mechanism in charged])
    ones = np.ones(len(each))
    factor = brentq(lambda f: kairouz(f * each, ones, delta) - epsilon, 0.0, epsilon / float(each.min()) + 1.0)
    return TheoremAlone(float(factor * each[-1]), 1.0 / factor)


def _sizes(preparation: Preparation, agents: list[int]) -> list[int]:
    """The smallest, the quartiles and the largest by number of records."""
    ordered = sorted(agents, key=lambda agent: (len(preparation.dealt.shards[agent].y), agent))
    places = [round(share * (len(ordered) - 1)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    return list(dict.fromkeys(ordered[place] for place in places))


def _one(preparation: Preparation, agent: int, planned: Plan, windows: Windows) -> OneAgent:
    index, last = next((k, planned[k]) for k in reversed(range(len(planned))) if planned[k] is not None)
    assert last is not None
    records = sum(within(window, index) for window in windows) or len(preparation.dealt.shards[agent].y)
    # A mean gradient of records clipped to C moves by at most 2 C / m; other releases are not made of one.
    clipped = preparation.configuration.privacy.clip is not None and last.name in NORMS
    return OneAgent(
        agent=agent,
        name=preparation.dealt.names[agent],
        records=records,
        sensitivity=last.sensitivity,
        scale=last.scale,
        gradient_noise_per_clip=2.0 * last.multiplier / records if clipped else None,
    )


def _counts(configuration: Configuration) -> list[int]:
    learning = configuration.learning
    # Rounds that each have a law of their own are composed one by one: a thousand of them take half a minute.
    slow = algorithm(learning.algorithm).own_noise(learning.given()) and configuration.privacy.allocation != "uniform"
    return sorted({*(COUNTS[:-1] if slow else COUNTS), configuration.clock.updates})


def _compared(configuration: Configuration, preparation: Preparation, updates: int) -> ForUpdates:
    clock = configuration.clock.model_copy(update={"updates": updates})
    try:
        last = _last_multiplier(replace(preparation, configuration=configuration.model_copy(update={"clock": clock})))
    except ValueError as error:
        return ForUpdates(updates, None, None, str(error))
    pure = configuration.privacy.mechanism != "gaussian"
    return ForUpdates(updates, last, 1.0 / last if pure else None)


def _last_multiplier(preparation: Preparation) -> float:
    """Of the last charged release; where each agent buys its own noise, of an agent with the most records."""
    noise = multipliers(preparation.configuration, preparation.dealt.dimension)
    if len(noise):
        return float(noise[-1])
    largest = max(range(preparation.agents), key=lambda agent: preparation.dealt.shards[agent].records)
    last = [mechanism for mechanism in _plan(preparation, largest, _agent_of(preparation, largest)) if mechanism][-1]
    return last.multiplier
