"""What ``sottovoce budget`` shows on a terminal."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from node.configuration.sections import Configuration
from node.configuration.writing import toml_value
from node.dealing.bought import Arrivals, Bought, OnTheseData, OtherObservers
from node.dealing.proposal import Proposal
from node.results.table import OBSERVERS, distance_in_words


def show(found: Bought, configuration: Configuration, console: Console) -> None:
    """Print everything."""
    console.print(
        f"[bold]{found.mechanism}[/] noise, {found.allocation} allocation, {found.charged_releases} charged "
        f"releases of each agent; the unit of privacy is [bold]{found.record}[/]"
    )
    _show_total(found, console)
    if found.arrivals is not None:
        _show_arrivals(found.arrivals, console)
    if found.on_these_data is not None:
        _show_on_these_data(found.on_these_data, console)
    for place, release in found.release.items():
        cost = "no epsilon of its own" if release.epsilon is None else f"epsilon {_number(release.epsilon)}"
        console.print(
            f"{place} release: {release.mechanism} noise of {_number(release.multiplier)} sensitivities, {cost}"
        )
    if found.theorem_alone is not None:
        console.print(
            "Theorem 3.5 alone would allow epsilon "
            f"{_number(found.theorem_alone.epsilon_of_last_release)} for the last release: "
            f"{found.theorem_alone.noise_factor:.2f} times the noise"
        )
    _show_agents(found, console)
    _show_updates(found, console)
    if found.other_observers is not None:
        _show_other_observers(found.other_observers, console)
    _show_proposal(found.proposal, configuration, console)
    for warning in found.warnings:
        console.print(f"[yellow]warning:[/] {warning}")


def _show_total(found: Bought, console: Console) -> None:
    total = found.total
    whole = (
        "Total of one agent, all its releases" if found.arrivals is None else "Total of the record that is used most"
    )
    table = Table(title=whole, title_justify="left", box=None)
    for column in ("accountant", "epsilon", ""):
        table.add_column(column, justify="right" if column == "epsilon" else "left")
    figures = (
        ("plain sum", total.plain_sum),
        ("Kairouz Theorem 3.5", total.kairouz_theorem_3_5),
        ("exact", total.exact),
    )
    for name, epsilon in figures:
        table.add_row(name, _number(epsilon), "does not apply" if epsilon is None else "")
    table.add_row("[bold]charged[/]", f"[bold]{_number(total.epsilon)}[/]", f"by: {total.accountant}")
    table.add_row("budget", _number(found.budget["epsilon"]), f"at delta {found.budget['delta']:g}")
    for observer, value in (found.observers or {}).items():
        seen = "all" if value is None else _number(value)
        table.add_row(f"towards {OBSERVERS[observer]}", seen, "of the masked sums")
    for group in found.groups:
        table.add_row(f"for {group.records} records", _number(group.epsilon), "datasets that differ in so many records")
    console.print(table)
    console.print(
        f"for accounting elsewhere: zCDP rho {_number(total.zcdp_rho)}, GDP mu {_number(total.gdp_mu)} "
        f"({total.conversion})"
    )


def _show_arrivals(arrivals: Arrivals, console: Console) -> None:
    console.print(
        f"{arrivals.arriving} of {arrivals.from_the_start + arrivals.arriving} training records arrive during the run; "
        f"at most {arrivals.uses} releases use a record, then it is left out",
        soft_wrap=True,
    )
    console.print(
        f"the first of the records is charged epsilon {_number(arrivals.epsilon_first)}, the last to arrive "
        f"{_number(arrivals.epsilon_last)}",
        soft_wrap=True,
    )


def _show_on_these_data(known: OnTheseData, console: Console) -> None:
    together, earlier = known.together, len(known.earlier_runs)
    if together.runs < 2 and together.limit is None:
        return
    if together.epsilon is None:
        told = "no bound: releases without noise are among them"
    else:
        told = (
            f"epsilon {together.epsilon:.4g} at delta {together.delta:.3g}, for {together.records} of "
            f"{together.of} records"
        )
    runs = f"with {earlier} earlier run{'s' if earlier > 1 else ''} on these data" if earlier else "on these data"
    limit = "" if together.limit is None else f"; privacy.total_epsilon = {together.limit:g}"
    console.print(f"[bold]{runs}: {told}[/]{limit}", soft_wrap=True)


def _show_agents(found: Bought, console: Console) -> None:
    table = Table(title="Noise of the last release by an agent's size", title_justify="left", box=None)
    for column in ("agent", "name", "records", "sensitivity", "noise scale", "noise of a mean gradient / clip"):
        table.add_column(column, justify="left" if column == "name" else "right")
    for one in found.agents:
        figures = (one.sensitivity, one.scale, one.gradient_noise_per_clip)
        table.add_row(str(one.agent), one.name, str(one.records), *map(_number, figures))
    console.print(table)


def _show_updates(found: Bought, console: Console) -> None:
    table = Table(title="The same budget for other numbers of updates", title_justify="left", box=None)
    for column in ("updates", "noise / sensitivity, last release", "epsilon, last release"):
        table.add_column(column, justify="right")
    for row in found.updates_compared:
        chosen = "[bold]" if row.updates == found.updates else "[default]"
        table.add_row(f"{chosen}{row.updates}[/]", _number(row.multiplier), _number(row.epsilon))
    console.print(table)


def _show_other_observers(seen: OtherObservers, console: Console) -> None:
    if seen.not_given is not None:
        console.print(f"As other observers see it (not the promise): not given for {seen.not_given}")
        return
    table = Table(title="As other observers see it (not the promise)", title_justify="left", box=None)
    for column in ("an agent at", "flat loss", "steep loss", "changing pull", "at most", "pairs"):
        table.add_column(column, justify="left" if column == "an agent at" else "right")
    for row in seen.distances:
        table.add_row(
            distance_in_words(row.hops),
            *(f"{least:.3g} to {largest:.3g}" for least, largest in (row.flat, row.steep, row.changing)),
            f"{row.epsilon:.3g}",
            str(row.pairs),
        )
    console.print(table)
    keys = "have keys" if seen.links_have_keys else "have no keys here, so this does not hold"
    console.print(f"Epsilon at delta {seen.delta:g} towards one agent that receives only its neighbours' releases.")
    console.print(f"Links {keys}. Assumed: {'; '.join(seen.assumes)}.")


def _show_proposal(proposal: Proposal, configuration: Configuration, console: Console) -> None:
    """The settings that the rule finds from public numbers, and the line that uses those that differ."""
    if proposal.not_given is not None:
        console.print(f"no proposal of settings: {proposal.not_given}", markup=False, soft_wrap=True)
        return
    console.print("[bold]Proposed from public numbers alone[/] (sizes, bounds, graph and budget, no record)")
    for reason in proposal.why:
        console.print(f"- {reason}", markup=False, soft_wrap=True)
    changes = proposal.changes(configuration)
    if changes:
        use = " ".join(f"--set {path}={toml_value(value)}" for path, value in changes.items())
        console.print(f"use: {use}", markup=False, soft_wrap=True)
    else:
        console.print("the configuration has these settings")


def _number(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"
