"""The table with which a run ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from coordinator_free.agents.registry import algorithm
from coordinator_free.privacy.observers import FARTHEST
from node.folder.endings import failure_lines
from node.folder.spending import SpentEpsilon
from node.results.details import Details, read_details
from node.results.gain import without_gain
from node.results.labels import LABELS
from node.results.results import NetworkCounts, Results, SingleObservers

ORDER = ("zero", "alone", "best_ridge", "together", "released_average", "finish", "pooled")

OBSERVERS = {
    "outside": "an observer that takes no part",
    "participant": "one agent of the sum",
    "colluders": "privacy.colluders agents together (the promise)",
}
"""Of masked sums, in words."""

MOST_EARLIER = 8

_ALWAYS = 3
"""Columns that every table has: the model, the mean and the worst."""

QUARTERS = "ranges: quarters of the agents by their training records"


def show(folder: Path, results: Results, console: Console) -> None:
    """Print the table of the run in ``folder``; raises `RunFolderError` if it was not judged yet."""
    details = read_details(folder)
    console.print(render(results, details, console.width))
    names = ("report.html", "convergence.png", "gain.png", "staleness.png")
    pictures = [name for name in names if (folder / name).exists()]
    if pictures:
        console.print(Text(f"\nlook at {folder / pictures[0]}{' ' if pictures[1:] else ''}{' '.join(pictures[1:])}"))


def render(results: Results, details: Details, width: int | None = None) -> RenderableType:
    """The table, the facts below it, and the notes that must not be missed.

    ``width`` is that of the terminal in characters. Where the columns by dataset size do not fit, they are left out: a
    column that is cut shows no number at all.
    """
    heads, rows, notes = model_rows(results, details)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0), caption_justify="left")
    table.caption = caption(details)
    needed = sum(max(map(len, column)) + 2 for column in zip(heads, *rows, strict=True))
    if width is not None and needed > width and len(heads) > _ALWAYS:
        heads, rows = heads[:_ALWAYS], [row[:_ALWAYS] for row in rows]
        table.caption = f"the columns by dataset size need {needed} characters"
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place == 0 else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    below = Table.grid(padding=(0, 2, 0, 0))
    below.add_column(style="dim", no_wrap=True)
    below.add_column()
    for name, value in facts(results, details):
        below.add_row(name, Text(value))
    texts = [Text(note, style="yellow") for note in notes]
    first = [_incomplete(results, details), headline(details)]
    above = [Text(line, style="bold yellow") for line in first if line]
    return Group(*above, Text(), table, Text(), below, *([Text(), *texts] if texts else []))


def _incomplete(results: Results, details: Details) -> str | None:
    """What comes before all figures, because they rest on it."""
    if results.capture is None or results.capture.complete:
        return None
    return f"the capture is {details.capture}: the log does not hold all that was sent"


def model_rows(results: Results, details: Details) -> tuple[list[str], list[list[str]], list[str]]:
    """Heads, rows and notes: each kind of model with its mean, its worst agent, and its mean by dataset size."""
    quarters = details.quarters if caption(details) else []
    heads = [_metric(results), "mean", "worst", *(_span(quarter.records) for quarter in quarters)]
    rows = []
    for kind in ORDER:
        summary = results.summary(kind) or details.summary(kind)
        if summary is None:
            continue
        mark = " *" if details.private and kind == "finish" else ""
        rows.append(
            [
                LABELS[kind] + mark,
                decimal(summary.mean),
                decimal(summary.worst),
                *(decimal(quarter.means.get(kind)) for quarter in quarters),
            ]
        )
    return heads, rows, _notes(results, details)


def caption(details: Details) -> str | None:
    """What the ranges over the last columns are; None where sizes hardly differ, and so there are no such columns."""
    sizes = [size for quarter in details.quarters for size in quarter.records]
    return QUARTERS if sizes and max(sizes) > 1.1 * min(sizes) else None


def _notes(results: Results, details: Details) -> list[str]:
    notes = without_gain(results, details)
    if details.private:
        if results.together is not None and algorithm(results.algorithm).releases_its_model:
            notes.append("together: each agent's last release, noise and all.")
        if results.finish is not None:
            notes.append("* finish models are never released and not covered by epsilon: keep them where they are.")
        notes.append("Figures on held-out rows are computed from local data: not covered by epsilon either.")
    if details.best_ridge is not None:
        notes.append(f"best ridge alone: lambda = {details.best_ridge_multiple:.3g}/m_i, chosen on the held-out rows.")
    notes += details.warnings
    notes += _earlier(details)
    return notes + failure_lines(results.failures)


def _earlier(details: Details) -> list[str]:
    """One line for each earlier run on the same records, up to `MOST_EARLIER`."""
    notes = []
    for earlier in details.earlier_runs[:MOST_EARLIER]:
        if earlier.epsilon_max is not None and earlier.delta is not None:
            what = "reserved (its ledgers were not read yet)" if earlier.reserved else "spent"
            notes.append(
                f"earlier run {earlier.run} on the same data {what} epsilon {earlier.epsilon_max:.4g} "
                f"at delta {earlier.delta:.3g} (largest over agents): budgets add up."
            )
        else:
            notes.append(f"earlier run {earlier.run} on the same data released without noise.")
    more = len(details.earlier_runs) - len(notes)
    if more:
        notes.append(f"and {more} more earlier runs on the same data.")
    together = details.together
    if together is not None and together.figures:
        notes.append(
            f"tune or compare showed figures of these records {together.figures} times; no budget covers them."
        )
    if together is not None and together.unknown:
        notes.append(
            f"{together.unknown} records of earlier runs are not in the data any more. If records were changed, what "
            "was spent on them before is not added."
        )
    return notes


def headline(details: Details) -> str | None:
    """What all runs on the same records spent together, for the first line; None where this run is the only one."""
    together = details.together
    if together is None or together.runs < 2:
        return None
    if together.epsilon is None:
        told = "without a bound: releases without noise are among them"
    else:
        told = f"epsilon {together.epsilon:.4g} at delta {together.delta:.3g} for {details.record}, at most"
        if details.private:
            told += f" ({together.records} of {together.of} records)"
    return f"all {together.runs} runs on these data together: {told}"


def facts(results: Results, details: Details) -> list[tuple[str, str]]:
    """What else the run's end says, one (name, value) a line."""
    found = []
    if results.optimum_gap is not None:
        found.append(("gap to optimum", f"{results.optimum_gap:.3g} (1 at the start)"))
    found.append(("privacy", _privacy(results.epsilon, details)))
    if results.observers is not None:
        found.append(("of the masked sums", observers_in_words(results.observers)))
    if results.other_observers is not None:
        found.append(("as agents see it", other_observers_in_words(results.other_observers)))
    found.append(
        (
            "sent",
            f"{_count(details.releases_per_agent)} releases and {_size(details.bytes_per_agent)} per agent",
        )
    )
    if details.capture is not None:
        found.append(("capture", details.capture))
    if results.wire.dropped_by_reason:
        reasons = ", ".join(f"{reason} {count}" for reason, count in results.wire.dropped_by_reason.items())
        found.append(("dropped frames", reasons))
    found += _network(results.network or NetworkCounts())
    ages = results.staleness
    if ages is not None:
        told = f"{ages.mean:.2f} releases on average, {ages.median} median, {ages.p95} at 95%"
        found.append(("age of models used", f"{told}, {ages.max} at most"))
    found += _time_and_memory(results)
    found += [("assumed public", assumption) for assumption in results.public_assumptions]
    return found


def _network(network: NetworkCounts) -> list[tuple[str, str]]:
    found = []
    links = network.links
    if links:
        words = ("dropped", "duplicated", "late", "repeats")
        told = ", ".join(f"{sum(link.counts.get(word, 0) for link in links)} {word}" for word in words)
        found.append(("network", f"{told}, over {len(links)} links"))
    if network.faults:
        happened = Counter(fault["fault"] for fault in network.faults if "skipped" not in fault)
        found.append(("faults", ", ".join(f"{count} {name}" for name, count in happened.items()) or "none happened"))
    return found


def _time_and_memory(results: Results) -> list[tuple[str, str]]:
    time = results.time
    parts = []
    if time.ready_s is not None:
        parts.append(f"ready after {time.ready_s:.1f} s")
    if time.wall_s is not None:
        parts.append(f"{time.wall_s:.1f} s in all")
    if results.memory.pss_mb_per_agent is not None:
        parts.append(f"{results.memory.pss_mb_per_agent:.1f} MB per agent")
    return [("time and memory", ", ".join(parts))] if parts else []


def _privacy(epsilon: SpentEpsilon, details: Details) -> str:
    if not details.private:
        return "none: releases carry no noise"
    if epsilon.charged_max is None:
        return f"unknown: something was released without noise, or no ledger is here, for {details.record}"
    told = (
        f"epsilon {epsilon.charged_max:.4g} charged at most, {epsilon.charged_mean:.4g} on average, "
        f"of {epsilon.budget:g} at delta {epsilon.delta:.3g}, for {details.record} ({epsilon.accountant})"
    )
    if epsilon.zcdp_rho is not None and epsilon.gdp_mu is not None:
        told += f"; zCDP rho {epsilon.zcdp_rho:.3g} and GDP mu {epsilon.gdp_mu:.3g} at most"
    if details.simulation:
        told += "; a simulation: a holder of the seed can compute the noise"
    return told


def observers_in_words(observers: Mapping[str, float | None]) -> str:
    """What each observer of masked sums learns, in one line."""
    told = (f"{OBSERVERS[who]}: {'all' if seen is None else f'{seen:.4g}'}" for who, seen in observers.items())
    return f"epsilon towards {', towards '.join(told)}"


def other_observers_in_words(seen: SingleObservers) -> str:
    """Epsilon at each distance from an agent that receives only its neighbours' releases, in one line."""
    at = (f"{row.epsilon:.3g} at {distance_in_words(row.hops)}" for row in seen.distances)
    return f"not the promise: epsilon at most {', '.join(at)}, towards one agent alone, by a linear model of the run"


def distance_in_words(hops: int) -> str:
    """A number of hops; the last one stands for all that are farther."""
    return f"{hops} hop{'s' if hops > 1 else ''}{' or more' if hops == FARTHEST else ''}"


def _metric(results: Results) -> str:
    return "RMSE" if results.metric.name == "rmse" else str(results.metric.name)


def _span(records: tuple[int, int]) -> str:
    return f"{records[0]}" if records[0] == records[1] else f"{records[0]}-{records[1]}"


def decimal(value: float | None) -> str:
    """Return three decimals of a score, or fewer where the number would need more than seven characters."""
    if value is None:
        return "-"
    if abs(value) >= 1e7:
        return f"{value:.2e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.{max(0, 6 - max(3, len(str(int(abs(value))))))}f}"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _size(size: float | None) -> str:
    if size is None:
        return "-"
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
