"""Charts as SVG inside of a page: lines, points and bars on two axes, in the page's own colours.

Colours are classes that the page's style defines for light and dark (`STYLE`), and a chart is as wide as its column. A
browser shows the name of a mark that is pointed at.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 10, 46
_TICKS: Final = 5

STYLE: Final = """
svg{width:100%;height:auto;display:block}svg text{fill:var(--ink);font-size:12px}.grid{stroke:var(--line)}
.mark{fill:none;stroke-width:2}.dash{stroke-dasharray:6 4}.dot{fill-opacity:.55;stroke:none}
.key{display:inline-block;width:1.3rem;margin:0 .4rem .25rem 0;border-top:3px solid}.keys span+span{margin-left:1.2rem}
"""

Number = float | None


@dataclass(frozen=True)
class Line:
    """A line through points with these coordinates (None: a gap), in the colour of ``kind``."""

    name: str
    kind: str
    x: Sequence[float]
    y: Sequence[Number]
    dashed: bool = False


@dataclass(frozen=True)
class Points:
    """Points with these coordinates (None: no point), each with a name that shows where it is pointed at."""

    name: str
    kind: str
    x: Sequence[float]
    y: Sequence[Number]
    names: Sequence[str]


@dataclass(frozen=True)
class Bars:
    """A bar for each label, from zero."""

    name: str
    kind: str
    labels: Sequence[str]
    y: Sequence[float]


Series = Line | Points | Bars


def chart(what: str, x_label: str, y_label: str, series: Sequence[Series], *, log: bool = False) -> str:
    """A chart with its key, as HTML.

    Parameters
    ----------
    what
        What it shows, for readers that do not see it.
    x_label, y_label
        Of the axes.
    series
        Lines and points, or bars alone.
    log
        Whether the vertical axis is logarithmic; values of zero and below are left out there.
    """
    bars = [one for one in series if isinstance(one, Bars)]
    xs = [float(x) for one in series if not isinstance(one, Bars) for x in one.x]
    ys = [y for one in series for y in one.y if y is not None and _shown(y, log)]
    if not ys or not (xs or bars):
        return ""
    low, high = _room(min(ys), max(ys), log, from_zero=bool(bars))
    across = _scale(min(xs), max(xs), LEFT, WIDTH - RIGHT) if xs else _scale(0.0, 1.0, LEFT, WIDTH - RIGHT)
    up = _scale(*((math.log10(low), math.log10(high)) if log else (low, high)), HEIGHT - BOTTOM, TOP)

    def height(value: float) -> float:
        return up(math.log10(value) if log else value)

    drawn = [_rows(low, high, log, height)]
    drawn += [_columns(min(xs), max(xs), across)] if xs else []
    for one in series:
        if isinstance(one, Line):
            drawn.append(_line(one, across, height, log))
        elif isinstance(one, Points):
            drawn.append(_points(one, across, height, log))
        else:
            drawn.append(_bars(one, height))
    middle = (LEFT + WIDTH - RIGHT) / 2
    drawn.append(f'<text x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(x_label)}</text>')
    drawn.append(
        f'<text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(y_label)}</text>"
    )
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(what)}">{"".join(drawn)}</svg>'
    return svg + (keys(series) if len(series) > 1 else "")


def keys(series: Sequence[Series]) -> str:
    """The names of series beside their colours, as HTML."""
    parts = []
    for one in series:
        style = ";border-top-style:dashed" if isinstance(one, Line) and one.dashed else ""
        key = f'<i class="key" style="border-color:var(--{one.kind}){style}"></i>'
        parts.append(f"<span>{key}{html.escape(one.name)}</span>")
    return f'<p class="keys note">{"".join(parts)}</p>'


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from ``low`` to ``high``, about five."""
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / _TICKS))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= _TICKS)
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _shown(value: float, log: bool) -> bool:
    return math.isfinite(value) and (value > 0.0 or not log)


def _room(low: float, high: float, log: bool, *, from_zero: bool) -> tuple[float, float]:
    """The ends of the vertical axis."""
    if from_zero:
        return 0.0, 1.05 * high or 1.0
    if log:
        return low / 1.2, high * 1.2
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = (high - low) or 1.0
    return lambda value: start + (end - start) * (value - low) / span


def _rows(low: float, high: float, log: bool, height: Callable[[float], float]) -> str:
    values = ticks(low, high)
    if log:
        first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
        values = [10.0**k for k in range(first, last + 1, 1 + (last - first) // 7)] or [low, high]
    return "".join(
        f'<path class="grid" d="M{LEFT} {height(v):.1f}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 8}" y="{height(v) + 4:.1f}" text-anchor="end">{v:.4g}</text>'
        for v in values
    )


def _columns(low: float, high: float, across: Callable[[float], float]) -> str:
    return "".join(
        f'<text x="{across(v):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{v:.6g}</text>'
        for v in ticks(low, high)
    )


def _line(one: Line, across: Callable[[float], float], height: Callable[[float], float], log: bool) -> str:
    steps, pen = [], "M"
    for x, y in zip(one.x, one.y, strict=True):
        if y is None or not _shown(y, log):
            pen = "M"
            continue
        steps.append(f"{pen}{across(x):.1f} {height(y):.1f}")
        pen = "L"
    dashed = " dash" if one.dashed else ""
    return f'<path class="mark{dashed}" style="stroke:var(--{one.kind})" d="{"".join(steps)}"/>'


def _points(one: Points, across: Callable[[float], float], height: Callable[[float], float], log: bool) -> str:
    dots = "".join(
        f'<circle cx="{across(x):.1f}" cy="{height(y):.1f}" r="4"><title>{html.escape(name)}</title></circle>'
        for x, y, name in zip(one.x, one.y, one.names, strict=True)
        if y is not None and _shown(y, log)
    )
    return f'<g class="dot" style="fill:var(--{one.kind})">{dots}</g>'


def _bars(one: Bars, height: Callable[[float], float]) -> str:
    room = (WIDTH - RIGHT - LEFT) / max(1, len(one.y))
    drawn = []
    for k, (label, value) in enumerate(zip(one.labels, one.y, strict=True)):
        x, top = LEFT + room * (k + 0.1), height(value)
        drawn.append(
            f'<rect style="fill:var(--{one.kind})" x="{x:.1f}" y="{top:.1f}" width="{0.8 * room:.1f}" '
            f'height="{HEIGHT - BOTTOM - top:.1f}"><title>{html.escape(label)}: {value:.3g}</title></rect>'
        )
        if k % (1 + len(one.y) // 25) == 0:
            place = f'x="{x + 0.4 * room:.1f}" y="{HEIGHT - BOTTOM + 18}"'
            drawn.append(f'<text {place} text-anchor="middle">{html.escape(label)}</text>')
    return "".join(drawn)
