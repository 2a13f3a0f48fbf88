"""Scores of many runs, by line of a table and by column, and the rows and drawn lines that they make."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coordinator_free.release import FloatArray
from node.experiments.charts import Series
from node.experiments.reproduce.figure import OPEN, PUBLISHED, Row, deviation, mean
from node.experiments.trial import Trial


class Line(NamedTuple):
    """One line of a table: a method in one reading at one stated budget (None without privacy)."""

    method: str
    reading: str = OPEN
    stated: float | None = None

    def label(self) -> str:
        """As a chart's legend shows it."""
        return self.method + ("" if self.stated is None else f", epsilon {self.stated:g} {self.reading}")


Measure = Callable[[Trial, FloatArray], Mapping[Any, float]]
"""Scores by column of the models (n, p) of a run."""


class Scores:
    """Scores over runs, by line and column, and the largest true epsilon of each line."""

    def __init__(self) -> None:
        self._found: dict[Line, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._true: dict[Line, float] = {}

    def add(self, line: Line, scores: Mapping[Any, float], true: float | None = None) -> None:
        """One run's scores of ``line``."""
        for column, score in scores.items():
            self._found[line][column].append(score)
        if true is not None:
            self._true[line] = max(true, self._true.get(line, 0.0))

    def add_trial(self, line: Line, trial: Trial, measure: Measure) -> None:
        """The last models of a run and, where there are some, those of the free finish as a line of their own."""
        self.add(line, measure(trial, trial.models), trial.epsilon)
        if trial.finishes is not None:
            finished = line._replace(method=f"{line.method}, free finish")
            self.add(finished, measure(trial, trial.finishes), trial.epsilon)

    def lines(self) -> list[Line]:
        """All lines, in the order in which they came."""
        return list(self._found)

    def mean(self, line: Line, column: Any) -> float:
        """The average over runs."""
        return mean(self._found[line][column])

    def deviation(self, line: Line, column: Any) -> float:
        """The standard deviation over runs."""
        return deviation(self._found[line][column])

    def true(self, line: Line) -> float | None:
        """The largest true epsilon of the runs of ``line``, None where there is none."""
        return self._true.get(line)

    def rows(self, columns: Mapping[str, Any]) -> list[Row]:
        """One row a line; ``columns`` are the heads and the columns of the scores."""
        return [
            {
                "method": line.method,
                "reading": line.reading,
                "epsilon stated": line.stated,
                "epsilon true": self.true(line),
                **{head: self.mean(line, column) for head, column in columns.items()},
            }
            for line in self._found
        ]

    def series(
        self,
        lines: Iterable[Line],
        columns: Sequence[Any],
        label: Callable[[Line], str] = Line.label,
        *,
        x: Sequence[float] | None = None,
        spread: bool = False,
    ) -> list[Series]:
        """Drawn lines over ``columns``, or over ``x`` in their place; dashed as published."""
        return [
            Series(
                label(line),
                columns if x is None else x,
                [self.mean(line, column) for column in columns],
                [self.deviation(line, column) for column in columns] if spread else (),
                colour=colour,
                dashed=line.reading == PUBLISHED,
            )
            for colour, line in enumerate(lines)
        ]
