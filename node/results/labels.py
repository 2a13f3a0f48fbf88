"""Names and colours of the kinds of models, and what stands beside figures."""

from __future__ import annotations

from node.results.details import Details
from node.results.results import Results

COLOURS = {
    "together": "#1f77b4",
    "finish": "#d1495b",
    "alone": "#66717d",
    "pooled": "#8a6fae",
    "released_average": "#2a9d8f",
}
LABELS = {
    "zero": "zero model",
    "alone": "alone",
    "best_ridge": "best ridge alone",
    "together": "together",
    "released_average": "average of what was released",
    "finish": "together, free finish",
    "pooled": "pooled",
}
NOT_COVERED = "from local data: not covered by epsilon"


def sign_of(results: Results) -> float:
    """1 where a larger metric is better, else -1: a difference times this is a gain."""
    return 1.0 if results.metric.larger_is_better else -1.0


def marked(text: str, details: Details) -> str:
    """The text, and in a private run that the figures are not private."""
    return f"{text}; {NOT_COVERED}" if details.private else text


def metric_name(name: str) -> str:
    """The name of a metric as tables and pictures show it."""
    return "RMSE" if name == "rmse" else name
