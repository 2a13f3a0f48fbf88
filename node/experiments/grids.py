"""Which settings of a configuration can be tuned, and the values that are tried of each.

Rules that hold here:
- A setting that buys a better score with a larger budget is not tuned: it decides what is promised, not how well.
- Nor is one that a trial does not use, or that decides what trials are judged on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from node.configuration.reading import from_table
from node.configuration.sections import Configuration
from node.experiments.trial import TrialError

MULTIPLES = {
    "learning.mu": (0.1, 0.3, 3.0, 10.0),
    "clock.updates": (0.2, 0.5, 2.0),
    "privacy.clip": (0.3, 0.6, 2.0),
    "learning.finish_mu": (0.1, 0.3, 3.0, 10.0),
}
RATES = (0.3, 0.5, 0.7, 0.9, 1.0)
"""Values of privacy.r that are tried where the allocation is not uniform."""
_SECTIONS = ("learning", "clock", "topology")
_OF_PRIVACY = ("privacy.clip", "privacy.r")


def parameters(configuration: Configuration, grids: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The values to try of each parameter: ``grids`` as given, others where the configuration has a value of them.

    Raises
    ------
    TrialError
        For a setting that cannot be tuned, or of which the configuration has no value.
    """
    found: dict[str, list[Any]] = {}
    for path, multiples in MULTIPLES.items():
        value = value_of(configuration, path)
        if value is None or (path == "privacy.clip" and not configuration.private):
            continue
        if path == "learning.finish_mu" and not configuration.learning.finish:
            continue
        if isinstance(value, int):
            found[path] = sorted({max(1, round(value * multiple)) for multiple in (*multiples, 1.0)})
        else:
            found[path] = sorted(_rounded(value * multiple) for multiple in (*multiples, 1.0))
    if configuration.private and configuration.privacy.allocation != "uniform":
        r = configuration.privacy.r
        found["privacy.r"] = sorted({*RATES, r if isinstance(r, float) else 1.0})
    for path, values in grids.items():
        _check(configuration, path)
        found[path] = list(values)
    if not found:
        raise TrialError("there is nothing to tune: give --try SECTION.KEY=VALUE,VALUE")
    return found


def _check(configuration: Configuration, path: str) -> None:
    section = path.partition(".")[0]
    if section == "privacy" and path not in _OF_PRIVACY:
        raise TrialError(
            f"--try {path}: it decides what is promised, and a weaker promise scores better: no score can choose it; "
            f"accepted are {' and '.join(_OF_PRIVACY)} (sottovoce budget shows what an epsilon buys)"
        )
    if section not in (*_SECTIONS, "privacy"):
        raise TrialError(
            f"--try {path}: no trial uses it, or it decides what trials are judged on; accepted are settings of "
            f"{', '.join(f'[{name}]' for name in _SECTIONS)}, {' and '.join(_OF_PRIVACY)}"
        )
    if value_of(configuration, path) is None:
        raise TrialError(f"--try {path}: the configuration has no value of it; accepted: a setting that it has")


def edge(path: str, value: Any, tried: Sequence[Any]) -> str | None:
    """Say "smallest" or "largest" of a value at the edge of those tried, where one beyond may be better; else None."""
    if len(tried) < 2 or (path == "privacy.r" and value == 1.0) or (path == "clock.updates" and value == 1):
        return None
    return "smallest" if value == min(tried) else "largest" if value == max(tried) else None


def value_of(configuration: Configuration, path: str) -> Any:
    """The value of a setting such as ``learning.mu`` or ``learning.parameters.rank``; None if it has none."""
    found: Any = configuration
    for name in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(name)
        elif isinstance(found, BaseModel) and name in type(found).model_fields:
            found = getattr(found, name)
        else:
            return None
    return found


def changed(configuration: Configuration, settings: Mapping[str, Any]) -> Configuration:
    """The configuration with other values of some settings."""
    table = configuration.model_dump(exclude_none=True, by_alias=True)
    for path, value in settings.items():
        *sections, key = path.split(".")
        inner = table
        for name in sections:
            inner = inner[name]
        inner[key] = value
    return from_table(table)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
