"""A picture of each bound: the bound in both readings over what was measured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from node.drawing import spans_decades
from node.experiments.charts import Panel, Series, draw
from node.experiments.theory.bound import Bound


def pictures(bounds: Sequence[Bound]) -> dict[str, bytes]:
    """A PNG by the name of its file, for each name and source; the readings of one bound share a picture."""
    groups: dict[tuple[str, str], list[Bound]] = {}
    for bound in bounds:
        groups.setdefault((bound.source, bound.name), []).append(bound)
    return {f"{_file_name(f'{source} {name}')}.png": draw([panel(of)]) for (source, name), of in groups.items()}


def panel(bounds: Sequence[Bound]) -> Panel:
    """The axes of one bound in its readings; what was measured is drawn once for each set of measurements."""
    lines = [
        Series(
            f"bound, {bound.reading}",
            bound.at.tolist(),
            bound.bound.tolist(),
            dashed=bound.reading == "as published",
        )
        for bound in bounds
    ]
    seen: set[bytes] = set()
    for bound in bounds:
        if bound.measured is not None and bound.measured.tobytes() not in seen:
            label = "measured" if not seen else f"measured, {bound.reading}"
            lines.append(Series(label, bound.at.tolist(), bound.measured.tolist(), (), 1 + len(seen)))
            seen.add(bound.measured.tobytes())
    drawn = np.concatenate([np.asarray(line.y, dtype=np.float64) for line in lines])
    finite = drawn[np.isfinite(drawn)]
    first = bounds[0]
    return Panel(
        f"{first.source}: {first.name}",
        first.y_label,
        first.x_label,
        lines,
        y_log=bool(finite.size) and spans_decades(finite),
    )


def _file_name(text: str) -> str:
    return "-".join("".join(c if c.isalnum() else " " for c in text).lower().split())
