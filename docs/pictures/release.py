"""Draws release.png for docs/architecture.md: the way of a release. Usage: python docs/pictures/release.py."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from node.drawing import INK, MUTED

AGENT, LISTENER, FILE = "#d7ecea", "#e3e9f4", "#f7ead7"

figure = Figure(figsize=(11, 5.6), dpi=100, facecolor="white")
FigureCanvasAgg(figure)
axes = figure.add_axes((0, 0, 1, 1))
axes.set_xlim(0, 110)
axes.set_ylim(0, 56)
axes.axis("off")


def frame(x: float, y: float, width: float, height: float, title: str) -> None:
    """A process: a thin frame with its name."""
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=1", fill=False, edgecolor=MUTED)
    )
    axes.text(x + 1.2, y + height - 2.4, title, color=INK, fontsize=10, fontweight="bold", va="center")


def box(x: float, y: float, what: str, where: str, colour: str, width: float = 15) -> None:
    """A step or a file: what happens, and below it where the code is."""
    axes.add_patch(
        FancyBboxPatch(
            (x, y), width, 7, boxstyle="round,pad=0,rounding_size=0.8", facecolor=colour, edgecolor="none", zorder=2
        )
    )
    axes.text(x + width / 2, y + 4.5, what, color=INK, fontsize=9.5, ha="center", va="center", zorder=3)
    axes.text(x + width / 2, y + 1.9, where, color=MUTED, fontsize=7.5, ha="center", va="center", zorder=3)


def arrow(start: tuple[float, float], end: tuple[float, float], text: str = "", dashed: bool = False) -> None:
    """From one box to the next; dashed where a program reads a file later."""
    style = {"arrowstyle": "-|>", "color": INK if not dashed else MUTED, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=style | {"linestyle": "--" if dashed else "-"}, zorder=4)
    if text:
        axes.text(
            (start[0] + end[0]) / 2 + 0.8, (start[1] + end[1]) / 2, text, color=INK, fontsize=8, va="center", zorder=4
        )


frame(2, 35, 106, 19, "agent i: a process of its own")
box(4, 41, "wake()", "coordinator_free/agents", AGENT, 17)
box(26, 41, "charge", "node/agent/charging.py", AGENT, 17)
box(48, 41, "bytes", "node/wire.py", AGENT, 17)
box(70, 41, "XPUB socket", "node/sockets", AGENT, 17)
arrow((21, 44.5), (26, 44.5))
arrow((43, 44.5), (48, 44.5))
arrow((65, 44.5), (70, 44.5))
axes.text(89, 46.2, "noise is in and charge\nis on the disk before\nthis point", color=INK, fontsize=8, va="center")

box(26, 24, "ledger.jsonl", "agents/agent-000i/", FILE, 17)
box(48, 24, "journal.bin", "agents/agent-000i/", FILE, 17)
arrow((34.5, 41), (34.5, 31), "1. fdatasync")
arrow((56.5, 41), (56.5, 31), "2. kept for repeats")

frame(88, 3, 20, 29, "neighbour j")
box(89.5, 21, "SUB socket", "node/sockets", LISTENER, 17)
box(89.5, 12.5, "checks", "node/wire.py", LISTENER, 17)
box(89.5, 4, "receive()", "coordinator_free/agents", LISTENER, 17)
arrow((98, 21), (98, 19.5))
arrow((98, 12.5), (98, 11))

frame(66, 3, 20, 20, "eavesdropper")
box(67.5, 12.5, "SUB socket", "node/traffic", LISTENER, 17)
box(67.5, 4, "traffic.mcap", "node/traffic", FILE, 17)
arrow((76, 12.5), (76, 11))

arrow((84, 41), (104.5, 28), "3. the same bytes")
arrow((83, 41), (83, 19.5))

frame(2, 3, 42, 15, "when the run is over")
box(4, 5, "sottovoce verify", "computes it again", LISTENER, 18)
box(24, 5, "sottovoce audit", "accounted, attacked", LISTENER, 18)
arrow((67.5, 7.5), (44, 7.5), dashed=True)
arrow((34.5, 24), (34.5, 18), dashed=True)
arrow((48, 26), (42, 18), dashed=True)

figure.savefig(Path(__file__).with_suffix(".png"))
