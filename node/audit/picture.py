"""The picture of an audit: agents on one axis; budget, accounted and attacked on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from node.drawing import GRID_INK, INK, floats, new_figure, titled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from node.audit.report import Audit

ACCOUNTED, ATTACKED, SHARP, OBSERVED = "#1f77b4", "#d1495b", "#edae49", "#66a182"
_SEPARATE: Final = 120
"""Up to this many agents each gets a line between its two figures."""
_TICKS: Final = 20
"""Up to this many agents each is named on the axis."""


def audit_figure(audit: Audit) -> Figure | None:
    """Each agent's epsilon, accounted and attacked; None where there is no epsilon to draw."""
    numbers = np.array([a.agent for a in audit.agents])
    accounted = floats([a.accounted for a in audit.agents])
    attacked = floats([a.attacked for a in audit.agents])
    sharp = floats([a.attacked_if_charged for a in audit.agents])
    if not (np.isfinite(accounted).any() or np.isfinite(attacked).any()):
        return None
    seen = floats(audit.observer.epsilons) if audit.observer is not None and audit.observer.epsilons else None
    budgets = sorted({a.budget for a in audit.agents if a.budget is not None})
    figure, [axis] = new_figure(1)
    confidence = audit.agents[0].confidence
    titled(
        axis,
        f"Epsilon of each agent{_of_whom(audit)} (delta {audit.delta:.3g})",
        f"one record: {audit.record}; attacked holds with {confidence:.0%} confidence for each agent",
    )
    for budget in budgets:
        _budget(axis, budget)
    if len(numbers) <= _SEPARATE:
        upper = accounted if seen is None else seen
        both = np.isfinite(upper) & np.isfinite(attacked)
        axis.vlines(numbers[both], attacked[both], upper[both], color=GRID_INK, linewidth=2.5, zorder=1)
    axis.scatter(numbers, accounted, s=22, marker="_", linewidths=2, color=ACCOUNTED, label="accounted: at most this")
    if seen is not None:
        label = "towards this agent: not the promise"
        axis.scatter(numbers, seen, s=22, marker="_", linewidths=2, color=OBSERVED, label=label)
    of_how_many = _how_many(np.isfinite(attacked))
    axis.scatter(numbers, attacked, s=18, color=ATTACKED, label=f"attacked: at least this{of_how_many}", zorder=3)
    if np.isfinite(sharp).any():
        axis.scatter(numbers, sharp, s=18, color=SHARP, label="attacked, if the noise has the charged law", zorder=3)
    top = float(np.nanmax([*accounted, *attacked, *sharp, *budgets]))
    axis.set_ylim(0, 1.15 * top if top > 0 else 1.0)
    span = max(1, len(numbers) - 1)
    axis.set_xlim(numbers.min() - 0.03 * span - 0.5, numbers.max() + 0.03 * span + 0.5)
    if len(numbers) <= _TICKS:
        axis.set_xticks(numbers)
    axis.set_xlabel("agent", color=INK)
    axis.set_ylabel("epsilon", color=INK)
    axis.grid(visible=False, axis="x")
    axis.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, fontsize=9)
    return figure


def _how_many(attacked: npt.NDArray[np.bool_]) -> str:
    """How many agents were attacked, where it was not all of them."""
    return "" if attacked.all() else f" ({attacked.sum()} of {len(attacked)} agents were attacked)"


def _of_whom(audit: Audit) -> str:
    return "" if audit.observer is None else f", attacked by agent {audit.observer.agent}"


def _budget(axis: Axes, budget: float) -> None:
    axis.axhline(budget, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    axis.annotate(
        f"budget {budget:g}",
        (1, budget),
        xycoords=("axes fraction", "data"),
        xytext=(-4, 4),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=9,
        color=INK,
    )
