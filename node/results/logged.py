"""What the traffic logs of a run hold: capture, curve, released average, and the ages of the models that were used."""

from __future__ import annotations

import math
from dataclasses import dataclass

from coordinator_free.agents.registry import algorithm
from coordinator_free.problem.losses import Loss
from coordinator_free.release import FloatArray, Release
from coordinator_free.theory.staleness import Ages, Staleness
from node.folder.run import RunFolder
from node.results.curve import Curve, CurveRecorder
from node.results.results import Captured
from node.traffic.completeness import CaptureCounter
from node.traffic.run_logs import frames_of, logs_of
from node.wire import message


@dataclass(frozen=True)
class Logged:
    """What one pass over the traffic logs gives; ``words`` is the capture in one line, ``seconds`` its length."""

    capture: Captured
    words: str
    curve: Curve | None
    released_average: FloatArray | None
    seconds: float | None
    staleness: Staleness | None
    ages: list[float]
    """The mean age of what was used up to each moment of the curve, since the moment before."""


def read_logs(run: RunFolder, judge: Loss, best: FloatArray | None) -> Logged | None:
    """Read the traffic logs once; None where there are none."""
    if not logs_of(run.folder):
        return None
    counter = CaptureCounter(run.run, range(run.agents))
    expected = sum(public.releases for public in run.public)
    recorder = CurveRecorder(run, judge, best, expected)
    kind = algorithm(run.configuration.learning.algorithm)
    neighbours = [kind.works_with(i, run.network.neighbours(i), run.public[i].learning) for i in range(run.agents)]
    ages = Ages(neighbours, max(public.releases for public in run.public))
    means: list[float] = [math.nan]
    first = last = 0
    for frame in frames_of(run.folder, []):
        releases = counter.releases
        header = counter.count(frame.parts)
        if header is not None and counter.releases > releases and len(frame.body) % 8 == 0:
            release = message(header, frame.body)
            assert isinstance(release, Release)
            recorder.receive(release.sender, release.vector)
            ages.receive(release)
            if len(means) < len(recorder.curve.releases):
                means.append(ages.mean_since())
        first, last = first or frame.time_ns, frame.time_ns
    verdict = counter.verdict()
    seconds = (last - first) / 1e9 if first else None
    curve = average = None
    if recorder.received and kind.releases_models:
        curve, average = recorder.finished(), recorder.released_average
        if len(means) < len(curve.releases):
            means.append(ages.mean_since())
    return Logged(Captured(**verdict.as_results()), verdict.in_words(), curve, average, seconds, ages.staleness, means)
