"""Section 5.2 of paper 000: the Adult rows as printed, beside the product's, in loss and error.

As printed, columns are divided by their maxima, and the native country becomes its frequency. Both are statistics of
all records, so no epsilon is true then, and the table shows none.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from node.experiments.charts import Panel
from node.experiments.reproduce.adult import ADULT, DATA, MAJORITY, SMALL, Run, census, judged, method, over_rounds
from node.experiments.reproduce.dual_and_primal import CONTROL, LOSS_OFF_SCALE
from node.experiments.reproduce.figure import OPEN, PUBLISHED, Figure, FigureError, Reproduction, Request, Row, Setting
from node.untyped import Changes

ALPHA = 0.5
PUBLIC, MAXIMA, FREQUENCY = "public bounds, one-hot", "maxima, one-hot", "maxima, country by frequency"
_AS_PRINTED: Changes = {"data.as_published": True}
FORMS: dict[str, Changes] = {
    PUBLIC: {"data.as_published": False, "data.by_frequency": []},
    MAXIMA: _AS_PRINTED | {"data.by_frequency": []},
    FREQUENCY: _AS_PRINTED | {"data.by_frequency": ["native-country"]},
}
"""The rows: the product's, those of paper 001, and those of paper 000."""
METHODS: dict[str, tuple[str, Changes]] = {
    "ADMM": (OPEN, CONTROL),
    "DVP": (PUBLISHED, method("dvp", PUBLISHED, ALPHA)),
}
NOTES = [
    f"{PUBLIC}: the default. {MAXIMA}: data.as_published = true. {FREQUENCY}: with data.by_frequency too.",
    "Maxima and frequencies come from all records: one replaced record may change every row, so no epsilon is true.",
    f"eta = 0.5; DVP claims alpha {ALPHA:g} for each round; {MAJORITY}.",
]


def _settings(request: Request) -> list[Setting]:
    source = request.given("data").get("source", "adult")
    if source != "adult":
        raise FigureError(f"data.source = {source}: paper000/rows is about the Adult rows alone, and accepts adult")
    table = census(updates=20)
    return [
        Setting((name, reading, form), table, ADULT | changes | rows)
        for name, (reading, changes) in METHODS.items()
        for form, rows in FORMS.items()
    ]


def _reduce(figure: Figure, request: Request, settings: list[Setting]) -> Reproduction:
    runs: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    features: dict[str, int] = {}
    for setting, _, trial in request.trials(settings, request.runs(figure.runs)):
        runs[setting.key].append(judged(trial))
        features[setting.key[2]] = trial.preparation.dealt.dimension
    rows = [
        {
            "method": name,
            "reading": reading,
            "rows": form,
            "features": features[form],
            "true total": None if form != PUBLIC else max((run.epsilon for run in found if run.epsilon), default=None),
            "last loss": float(np.mean([run.last for run in found])),
            "error": float(np.mean([run.error for run in found])),
        }
        for (name, reading, form), found in runs.items()
    ]
    panels = []
    for name, (reading, _) in METHODS.items():
        lines = {
            form: np.minimum(np.mean([run.losses for run in runs[name, reading, form]], axis=0), LOSS_OFF_SCALE)
            for form in FORMS
        }
        series = [over_rounds(form, losses, colour) for colour, (form, losses) in enumerate(lines.items())]
        below = f"losses above {LOSS_OFF_SCALE:g} are drawn at {LOSS_OFF_SCALE:g}"
        panels.append(Panel(f"Loss by round, {name}, {reading}", below, "round", series))
    return figure.shown(rows, [_finding(name, rows) for name in METHODS], NOTES, panels)


def _finding(name: str, rows: list[Row]) -> str:
    """How the country by its frequency differs from one feature a country, in loss and error."""
    of = {row["rows"]: row for row in rows if row["method"] == name}
    words, rate = of[MAXIMA], of[FREQUENCY]
    loss, error = (rate[measure] - words[measure] for measure in ("last loss", "error"))
    return (
        f"{name}: the native country by frequency ({rate['features']} features) instead of one feature a country "
        f"({words['features']}) changes the last loss by {loss:+.4f} to {rate['last loss']:.4f}, and the error by "
        f"{error:+.4f} to {rate['error']:.4f}."
    )


FIGURE = Figure(
    "paper000/rows",
    "the Adult rows as printed and by public rules",
    "section 5.2: the native country by its frequency, columns over their maxima (no numbers are printed)",
    _settings,
    _reduce,
    data=DATA,
    reads=("data.source",),
    small=SMALL,
)
