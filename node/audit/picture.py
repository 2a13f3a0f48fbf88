"""The picture of an audit: agents on one axis; budget, accounted and attacked on the other."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from node.drawing import GRID_INK, INK, MUTED

if TYPE_CHECKING:
    from node.audit.report import Audit

ACCOUNTED, ATTACKED = "#1f77b4", "#d1495b"
_SEPARATE = 120
"""Up to this many agents each gets a line between its two figures."""


def audit_picture(audit: Audit) -> bytes | None:
    """A PNG; None where there is no epsilon to draw."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    numbers = np.array([a.agent for a in audit.agents])
    accounted = np.array([np.nan if a.accounted is None else a.accounted for a in audit.agents])
    attacked = np.array([np.nan if a.attacked is None else a.attacked for a in audit.agents])
    if not (np.isfinite(accounted).any() or np.isfinite(attacked).any()):
        return None
    budgets = sorted({a.budget for a in audit.agents if a.budget is not None})
    figure, axis = plt.subplots(figsize=(9, 4.6), dpi=150, layout="constrained")
    for budget in budgets:
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
    if len(numbers) <= _SEPARATE:
        both = np.isfinite(accounted) & np.isfinite(attacked)
        axis.vlines(numbers[both], attacked[both], accounted[both], color=GRID_INK, linewidth=2.5, zorder=1)
    axis.scatter(numbers, accounted, s=22, marker="_", linewidths=2, color=ACCOUNTED, label="accounted: at most this")
    axis.scatter(numbers, attacked, s=18, color=ATTACKED, label="attacked: at least this", zorder=3)
    top = np.nanmax([*accounted, *attacked, *budgets])
    axis.set_ylim(0, 1.15 * top if top > 0 else 1.0)
    span = max(1, len(numbers) - 1)
    axis.set_xlim(numbers.min() - 0.03 * span - 0.5, numbers.max() + 0.03 * span + 0.5)
    if len(numbers) <= 20:
        axis.set_xticks(numbers)
    confidence = audit.agents[0].confidence if audit.agents else 0.0
    axis.set_title(f"Epsilon of each agent (delta {audit.delta:.3g})", loc="left", fontsize=12, color=INK, pad=24)
    axis.text(
        0,
        1.03,
        f"one record: {audit.record}; attacked holds with {confidence:.0%} confidence for each agent",
        transform=axis.transAxes,
        fontsize=9,
        color=MUTED,
    )
    axis.set_xlabel("agent", color=INK)
    axis.set_ylabel("epsilon", color=INK)
    axis.grid(axis="y", color=GRID_INK)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.6, 1.0), ncols=1, fontsize=9)
    sink = io.BytesIO()
    figure.savefig(sink, format="png")
    plt.close(figure)
    return sink.getvalue()
