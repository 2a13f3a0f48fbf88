"""How a run could spend its budget: the settings that the rule for noisy gradient steps finds, and why.

Rules that hold here:
- Only public numbers enter: the agents' sizes, bounds of rows and labels, the graph, the budget. The records do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from coordinator_free.agents.averages.arrangement import weights
from coordinator_free.agents.registry import algorithm
from coordinator_free.privacy.families import NORMS, deviation
from coordinator_free.privacy.observer import shared_deviation
from coordinator_free.problem.losses import loss
from coordinator_free.problem.spending import Spending, spend
from node.configuration.sections import Configuration
from node.dealing.plan import multipliers
from node.dealing.preparation import Preparation, with_budget
from node.folder.profiles import left

BOUNDS = 3.0
"""A public bound of a label is taken to be this many times the usual size."""
MOSTLY = 0.5
"""The share of the possible gain from whose loss on a proposal says what would help."""

Value = bool | int | float | str


@dataclass(frozen=True)
class Proposal:
    """Settings by their path, and why; ``not_given`` says why there are none."""

    settings: Mapping[str, Value]
    why: tuple[str, ...]
    not_given: str | None = None

    def changes(self, configuration: Configuration) -> dict[str, Value]:
        """The settings that differ from the configured ones by more than a tenth."""
        return {
            path: value for path, value in self.settings.items() if _differs(_configured(configuration, path), value)
        }


def propose(preparation: Preparation) -> Proposal:
    """What the rule proposes for a private run; raises ValueError where the budget cannot be spent at all."""
    c, dealt = preparation.configuration, preparation.dealt
    chosen, norm = algorithm(c.learning.algorithm), NORMS[c.privacy.mechanism]
    if not chosen.descends:
        return _none(f'learning.algorithm = "{c.learning.algorithm}" has no rule; "gradient-descent" has one')
    if c.privacy.observer == "as_published":
        return _none('privacy.observer = "as_published": its noise is smaller than its claim needs')
    if norm not in dealt.row_bounds or "l2" not in dealt.row_bounds:
        return _none("nothing public bounds the rows: state data.bounds or data.row_bound")
    middle = _middle(c) if c.data.centring == "none" else 0.0
    label = usual_label(c, dealt.label_bound, middle)
    if label is None:
        return _none(f"nothing public bounds the labels: state data.bounds.{c.data.label or 'y'}")
    found = spend(
        loss(c.learning.loss),
        label,
        (dealt.row_bounds["l2"], dealt.row_bounds[norm]),
        dealt.dimension,
        float(preparation.smoothness.max()),
        lambda updates, clip: _deviation(preparation, updates, clip),
    )
    settings: dict[str, Value] = {"data.centring": "bounds"} if middle else {}
    settings |= {
        "clock.updates": found.updates,
        "privacy.clip": _rounded(found.clip),
        "learning.step": _rounded(found.step),
        "learning.iterate": "tail",
        "learning.momentum": found.momentum,
    }
    return Proposal(settings, _why(preparation, found, label, middle))


def _none(why: str) -> Proposal:
    return Proposal({}, (), why)


def _middle(c: Configuration) -> float:
    """The middle of the label's public bounds, where it is far from 0; else 0."""
    low, high = c.data.bounds.get(c.data.label or "y", (0.0, 0.0)) if c.data.positive is None else (0.0, 0.0)
    middle = (low + high) / 2.0
    return middle if abs(middle) > (high - low) / (2.0 * BOUNDS) else 0.0


def usual_label(c: Configuration, bound: float | None, middle: float = 0.0) -> float | None:
    """The usual size of a label that is at most ``bound``, less ``middle``; None where nothing public bounds labels."""
    if loss(c.learning.loss).metric == "accuracy":
        return 1.0
    return None if bound is None else (bound - abs(middle)) / BOUNDS


def _deviation(preparation: Preparation, updates: int, clip: float) -> float:
    """Of the noise in one coordinate of one of so many averages: the root mean square over them."""
    c, dealt = preparation.configuration, preparation.dealt
    clock = c.clock.model_copy(update={"updates": updates})
    many = c.model_copy(update={"clock": clock})
    sizes = np.array([shard.records for shard in dealt.shards], dtype=np.float64)
    filled = sizes > 0
    shares = weights([int(size) for size in sizes], c.learning.get("weighting") or "size")
    each = np.full(preparation.agents, 0.0)
    own = preparation.own_budgets or ((c.privacy.epsilon or 0.0, c.privacy.delta or 0.0),) * preparation.agents
    for budget in {budget for budget in own if budget[0] > 0}:
        afford = with_budget(many, left(c, budget) if preparation.own_budgets else budget)
        noise = multipliers(afford, dealt.dimension)
        each[[one == budget for one in own]] = math.sqrt(float(np.mean(noise**2)))
    unit = 2.0 * clip * deviation(c.privacy.mechanism, dealt.dimension)
    if c.privacy.observer == "sum":
        largest = float((shares[filled] / sizes[filled]).max() * each.max())
        noisy = int(filled.sum())
        part = shared_deviation(unit * largest, noisy, c.privacy.colluders + c.privacy.dropouts)
        return part * math.sqrt(noisy)
    return unit * float(np.linalg.norm((shares * each)[filled] / sizes[filled]))


def _why(preparation: Preparation, found: Spending, label: float, middle: float) -> tuple[str, ...]:
    c = preparation.configuration
    judge = loss(c.learning.loss)
    usual = (
        "labels -1 and 1" if judge.metric == "accuracy" else f"labels of usual size {label:.3g}, a third of their bound"
    )
    records = sum(shard.records for shard in preparation.dealt.shards)
    told = [
        f"{found.updates} updates: too few steps take {found.bias:.0%} of what a common model could gain, the noise "
        f"{found.noise:.0%}; with more updates the same budget is shared by more releases",
        f"each average of {preparation.agents} agents with {records} records has noise of {found.deviation:.3g} in "
        f"every coordinate; a common model is expected to be {found.model_size:.3g} long in each direction",
        f"clip {_rounded(found.clip):g}: {usual}, rows of half the greatest length",
        f"step {_rounded(found.step):g}: 0.9 of the longest that is stable for the public smoothness",
    ]
    if found.momentum:
        told.append(f"momentum {found.momentum:g}: it comes further in as many updates, and costs no privacy")
    if middle:
        told.append(f"labels minus {middle:g}, the middle of their bounds: from 0 the steps would first go there")
    if found.lost > MOSTLY:
        told.append(
            "at this budget little is left of what a common model could gain: a larger epsilon, more records or masked "
            'sums (learning.aggregation = "masked-sum", privacy.observer = "sum") leave more'
        )
    return tuple(told)


def _rounded(value: float) -> float:
    return float(f"{value:.2g}")


def _configured(configuration: Configuration, path: str) -> object:
    section, key = path.split(".")
    return configuration.learning.get(key) if section == "learning" else getattr(getattr(configuration, section), key)


def _differs(configured: object, proposed: Value) -> bool:
    if isinstance(proposed, (int, float)) and isinstance(configured, (int, float)):
        return not math.isclose(configured, proposed, rel_tol=0.1)
    return configured != proposed
