"""The two documents of a scored run, made of its scores, its ledgers, its logs and what its processes counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from coordinator_free.agents.registry import algorithm
from coordinator_free.privacy.observer import epsilons_of_a_sum
from coordinator_free.privacy.observers import ASSUMES, NoSurrogate, view
from coordinator_free.release import FloatArray
from coordinator_free.theory.staleness import Staleness
from node.drawing import floats
from node.faults.log import Fault, read_faults
from node.folder.counted import Counted
from node.folder.dealing_note import read_dealing_note
from node.folder.endings import failures_of
from node.folder.run import RunFolder
from node.folder.shard import setting
from node.folder.spending import Spending
from node.folder.watch import Watch, read_watch
from node.results.curve import Curve
from node.results.details import AgentColumns, CurvePoints, Details, Quarter
from node.results.logged import Logged
from node.results.results import Duration, LinkCounts, Memory, ModelAges, NetworkCounts, Results, SingleObservers, Wire
from node.results.scores import Scores, mean_of, number

MOST_AGENTS = 100
"""Up to this many agents a run's results say what single agents learn."""
NOT_COVERED = (
    "alone, pooled, zero and best_ridge, which are computed from the data",
    "together, finish and every other figure on held-out rows",
    "finish models, which are never released",
)


def results_of(
    run: RunFolder,
    scores: Scores,
    spending: Spending,
    logged: Logged | None,
    counted: Sequence[Counted | None],
    optimum_gap: float | None,
) -> Results:
    """Make the results. ``watch.json``, if there is one, says what only a launcher knows."""
    watch = read_watch(run.folder)
    failures = failures_of(run.folder, range(run.agents)) if watch is None else watch.failures
    wall_s = None if watch is None else watch.wall_s
    return Results(
        algorithm=run.configuration.learning.algorithm,
        world="processes" if watch is None else watch.world,
        agents=run.agents,
        metric=run.manifest.metric,
        alone=scores.summary("alone"),
        together=scores.summary("together"),
        released_average=scores.summary("released_average"),
        finish=scores.summary("finish"),
        pooled=scores.summary("pooled"),
        optimum_gap=number(optimum_gap),
        epsilon=spending.as_results(),
        observers=_observers(run, spending),
        other_observers=_other_observers(run),
        capture=logged.capture if logged is not None else None,
        wire=Wire(sum(count.bytes for count in counted if count is not None), dict(_dropped(counted))),
        time=Duration(_ready(watch, counted), wall_s or (logged.seconds if logged else None)),
        memory=Memory(_memory(counted)),
        failures=tuple(failures),
        network=_network(counted, read_faults(run.folder)),
        staleness=_staleness(logged.staleness if logged is not None else None),
        public_assumptions=run.manifest.public_assumptions,
    )


def details_of(
    run: RunFolder,
    scores: Scores,
    spending: Spending,
    logged: Logged | None,
    counted: Sequence[Counted | None],
    ridge: tuple[float, FloatArray] | None,
) -> Details:
    """Make the details: what tables, pictures and the report show besides the results."""
    dealt = read_dealing_note(run.folder)
    sent = [None if count is None else count.sent for count in counted]
    sizes = [None if count is None else count.bytes for count in counted]
    return Details(
        record=run.manifest.record,
        private=run.configuration.private,
        simulation=run.manifest.simulation,
        not_covered_by_epsilon=NOT_COVERED if run.configuration.private else (),
        warnings=run.manifest.warnings,
        earlier_runs=dealt.earlier_runs,
        together=dealt.together,
        zero=scores.summary("zero"),
        best_ridge=scores.summary("best_ridge"),
        best_ridge_multiple=ridge[0] if ridge is not None else None,
        quarters=_quarters(scores),
        capture=logged.words if logged is not None else None,
        releases_per_agent=mean_of(floats(sent)),
        bytes_per_agent=mean_of(floats(sizes)),
        curve=None if logged is None or logged.curve is None else _curve(logged.curve, logged.ages),
        agents=AgentColumns(
            name=run.manifest.names,
            records=tuple(int(m) for m in scores.records),
            test_records=tuple(len(rows.y_test) for rows in run.rows),
            scores={kind: _numbers(values) for kind, values in scores.kinds.items()},
            epsilon=_numbers(spending.epsilons),
            releases=tuple(sent),
            bytes=tuple(sizes),
        ),
    )


def _observers(run: RunFolder, spending: Spending) -> dict[str, float | None] | None:
    """What each observer of masked sums learns, from what was charged for them; None where sums are not masked."""
    privacy, mu, delta = run.configuration.privacy, spending.gdp_mu, spending.delta
    if privacy.observer != "sum" or mu is None or not delta:
        return None
    noisy = int(np.count_nonzero(run.records))
    seen = epsilons_of_a_sum(mu, delta, noisy, privacy.colluders, privacy.dropouts)
    return {who: number(epsilon) for who, epsilon in seen.items()}


def _other_observers(run: RunFolder) -> SingleObservers | None:
    """Epsilon towards single agents, which is not the promise; None without keys, and where there is no figure.

    It takes minutes for a large network, so it is left to ``sottovoce budget`` there.
    """
    privacy, make = run.configuration.privacy, algorithm(run.manifest.algorithm)
    if not (run.configuration.private and run.configuration.encrypted) or run.agents > MOST_AGENTS:
        return None
    agents = [make(setting(rows, own, bytes(32))) for rows, own in zip(run.rows, run.public, strict=True)]  # type: ignore[call-arg]
    try:
        seen = view(agents, run.configuration.clock.updates, run.network, privacy.delta or 0.0)
    except NoSurrogate:
        return None
    return SingleObservers(privacy.delta, ASSUMES, seen.observers, seen.distances)


def _quarters(scores: Scores) -> tuple[Quarter, ...]:
    quarters = []
    for group in scores.quarters():
        sizes = scores.records[group]
        means = {kind: mean_of(values[group]) for kind, values in scores.kinds.items()}
        quarters.append(Quarter(int(group.size), (int(sizes.min()), int(sizes.max())), means))
    return tuple(quarters)


def _numbers(values: Iterable[float]) -> tuple[float | None, ...]:
    return tuple(number(value) for value in values)


def _curve(curve: Curve, ages: Sequence[float]) -> CurvePoints:
    return CurvePoints(_numbers(curve.releases), _numbers(curve.gap), _numbers(curve.metric), _numbers(ages))


def _dropped(counted: Sequence[Counted | None]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counted:
        total.update({} if count is None else count.dropped_by_reason)
    return total


def _network(counted: Sequence[Counted | None], faults: Sequence[Fault]) -> NetworkCounts | None:
    """What network conditions did on each link, in releases, and which faults happened; None without either."""
    if not faults and not any(count is not None and count.links is not None for count in counted):
        return None
    links = [
        LinkCounts(int(sender), count.agent, link.counts)
        for count in counted
        if count is not None
        for sender, link in (count.links or {}).items()
    ]
    return NetworkCounts(tuple(links), tuple(faults))


def _ready(watch: Watch | None, counted: Sequence[Counted | None]) -> float | None:
    if watch is not None and watch.ready_s is not None:
        return watch.ready_s
    times = [count.ready_s for count in counted if count is not None and count.ready_s]
    return max(times, default=None)


def _memory(counted: Sequence[Counted | None]) -> float | None:
    sizes = [count.pss_kb for count in counted if count is not None and count.pss_kb]
    return float(np.mean(sizes)) / 1024 if sizes else None


def _staleness(found: Staleness | None) -> ModelAges | None:
    """Return the ages of the models that were used, in releases of their senders; None where none was received."""
    if found is None:
        return None
    return ModelAges(
        mean=found.mean,
        median=found.quantile(0.5),
        p95=found.quantile(0.95),
        max=found.largest,
        ages=found.ages,
        histogram=tuple((int(age), int(found.counts[age])) for age in np.flatnonzero(found.counts)),
        agents=_numbers(found.means),
    )
