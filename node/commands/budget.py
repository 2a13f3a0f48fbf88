"""``sottovoce budget``: what a privacy budget buys, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from node.commands.documents import document_text

if TYPE_CHECKING:
    from coordinator_free.algorithm import Algorithm
    from coordinator_free.privacy.accounting import Total
    from coordinator_free.privacy.mechanism import Mechanism
    from node.configuration.sections import Configuration
    from node.dealing.preparation import Preparation

COUNTS = (1, 10, 100, 1000)
"""Numbers of updates to compare, besides the configured one."""


def budget(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The configuration.", show_default=False)],
    override: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.KEY=VALUE", help="Override a setting; repeatable.")
    ] = None,
    observers: Annotated[
        bool, typer.Option("--observers", help="Also epsilon as single agents see it, which is not the promise.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Show what the privacy budget buys. Nothing is run, and nothing is charged.

    The noise of each release, its size for small and large agents, the total by every accountant, and the same for
    other numbers of updates.

    Example: sottovoce budget examples/schools.toml --set privacy.epsilon=1
    """
    from node.configuration.reading import load

    found = facts(load(config, override or []), observers=observers)
    if as_json:
        print(document_text(found))
    else:
        _show(found, Console(highlight=False))


def facts(configuration: Configuration, *, observers: bool = False) -> dict[str, Any]:
    """Everything that the command prints; raises ``ValueError`` if the configuration has no budget."""
    from coordinator_free.privacy.accounting import total
    from node.dealing.preparation import prepare
    from node.folder.profiles import is_learned

    if not configuration.private:
        raise ValueError(
            'privacy.mechanism = "none": there is no budget; accepted: a mechanism (laplace, gaussian, gamma-norm)'
        )
    if observers and is_learned(configuration):
        raise ValueError(
            '--observers: topology.kind = "private-similarity" has no graph before a run is dealt, and the figures of '
            "single agents rest on it; leave it out"
        )
    preparation = prepare(configuration)
    configuration = preparation.configuration
    agents = [_agent_of(preparation, agent) for agent in range(preparation.agents)]
    planned = {agent: _plan(preparation, agent, code) for agent, code in enumerate(agents)}
    plans = {agent: plan for agent, plan in planned.items() if any(mechanism is not None for mechanism in plan)}
    if not plans:
        raise ValueError("data: no agent has any records, so there is nothing to spend a budget on")
    delta = configuration.privacy.delta or 0.0
    totals = {agent: total(plan, delta) for agent, plan in plans.items()}
    worst = max(totals, key=lambda agent: totals[agent].epsilon)
    charged = [mechanism for mechanism in plans[worst] if mechanism is not None]
    return {
        "mechanism": configuration.privacy.mechanism,
        "allocation": configuration.privacy.allocation,
        "budget": {"epsilon": configuration.privacy.epsilon, "delta": delta},
        "record": preparation.dealt.record,
        "updates": configuration.clock.updates,
        "charged_releases": len(charged),
        "release": {"first": _release(charged[0]), "last": _release(charged[-1])},
        "total": _total(totals[worst]) | _elsewhere(charged),
        "observers": _observers(preparation, totals[worst].epsilon, delta),
        "other_observers": _other_observers(preparation, agents) if observers else None,
        "theorem_alone": _theorem_alone(charged, totals[worst].epsilon, delta),
        "agents": [_agent(preparation, agent, plans[agent]) for agent in _sizes(preparation, list(plans))],
        "updates_compared": [_compared(configuration, preparation, count) for count in _counts(configuration)],
        "on_these_data": _on_these_data(preparation, planned),
        "warnings": list(preparation.warnings),
    }


def _on_these_data(
    preparation: Preparation, planned: Mapping[int, Sequence[Mechanism | None]]
) -> dict[str, Any] | None:
    """What earlier runs spent on the same records, and the total with this run; None where no run was noted yet."""
    from node.dealing.reservation import spent_before
    from node.folder.plain import plain

    run = Path("runs") / preparation.configuration.run.name
    found = spent_before(preparation, [planned[agent] for agent in range(preparation.agents)], run)
    return None if found is None else {"earlier_runs": plain(found.runs), "together": plain(found.together)}


def _agent_of(preparation: Preparation, agent: int) -> Algorithm:
    from coordinator_free.agents.registry import make
    from node.folder.shard import setting

    public = preparation.public(agent)
    # No noise is drawn here: any secret will do.
    return make(public.algorithm, setting(preparation.rows(agent), public, bytes(32)))


def _plan(preparation: Preparation, agent: int, code: Algorithm) -> list[Mechanism | None]:
    releases = [code.charge(index) for index in range(preparation.public(agent).releases)]
    return [*preparation.profile_charges(agent), *releases]


def _observers(preparation: Preparation, epsilon: float, delta: float) -> dict[str, float | None] | None:
    """Epsilon of all masked sums for each observer; None where sums are not masked."""
    from coordinator_free.privacy.analytic_gaussian import gaussian_mu
    from coordinator_free.privacy.observer import epsilons_of_a_sum

    privacy = preparation.configuration.privacy
    if privacy.observer != "sum":
        return None
    noisy = sum(len(shard.y) > 0 for shard in preparation.dealt.shards)
    seen = epsilons_of_a_sum(gaussian_mu(epsilon, delta), delta, noisy, privacy.colluders, privacy.dropouts)
    return {who: value if math.isfinite(value) else None for who, value in seen.items()}


def _other_observers(preparation: Preparation, agents: list[Algorithm]) -> dict[str, Any]:
    """Epsilon towards an agent that receives only what its neighbours release: no promise, and never mixed into it."""
    from coordinator_free.privacy.observers import NoSurrogate, view

    configuration = preparation.configuration
    delta, why = configuration.privacy.delta or 0.0, None
    shown: dict[str, Any] = {"assumes": [], "observers": [], "distances": []}
    try:
        shown = view(agents, configuration.clock.updates, preparation.network, delta).to_json()
    except NoSurrogate as error:
        why = f"{configuration.learning.algorithm}: {error}"
    return {"delta": delta, "links_have_keys": configuration.encrypted, "not_given": why} | shown


def _release(mechanism: Mechanism) -> dict[str, Any]:
    """``epsilon`` is that of the release alone; null for Gaussian noise, which has none without a delta."""
    from coordinator_free.privacy.accounting import WITHOUT_EPSILON

    return {
        "mechanism": mechanism.name,
        "multiplier": mechanism.multiplier,
        "epsilon": None if mechanism.name in WITHOUT_EPSILON else 1.0 / mechanism.multiplier,
    }


def _total(total: Total) -> dict[str, Any]:
    return {
        "epsilon": total.epsilon,
        "accountant": total.accountant,
        "plain_sum": total.plain,
        "kairouz_theorem_3_5": total.kairouz,
        "exact": total.exact,
    }


def _elsewhere(charged: list[Mechanism]) -> dict[str, Any]:
    """The same releases in the parameters of other accountings."""
    from coordinator_free.privacy.parameters import conversion, gdp, zcdp

    return {"zcdp_rho": zcdp(charged), "gdp_mu": gdp(charged), "conversion": conversion(charged)}


def _theorem_alone(charged: list[Mechanism], epsilon: float, delta: float) -> dict[str, Any] | None:
    """What Theorem 3.5 alone would have allowed: null for Gaussian noise, which it does not cover."""
    import numpy as np
    from scipy.optimize import brentq

    from coordinator_free.privacy.accounting import WITHOUT_EPSILON, kairouz

    if delta == 0.0 or any(mechanism.name in WITHOUT_EPSILON for mechanism in charged):
        return None
    each = np.array([1.0 / mechanism.multiplier for mechanism in charged])
    ones = np.ones(len(each))
    factor = brentq(lambda f: kairouz(f * each, ones, delta) - epsilon, 0.0, epsilon / float(each.min()) + 1.0)
    return {"epsilon_of_last_release": float(factor * each[-1]), "noise_factor": 1.0 / factor}


def _sizes(preparation: Preparation, agents: list[int]) -> list[int]:
    """The smallest, the quartiles and the largest by number of records."""
    ordered = sorted(agents, key=lambda agent: (len(preparation.dealt.shards[agent].y), agent))
    places = [round(share * (len(ordered) - 1)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    return list(dict.fromkeys(ordered[place] for place in places))


def _agent(preparation: Preparation, agent: int, planned: list[Mechanism | None]) -> dict[str, Any]:
    from coordinator_free.privacy.families import NORMS

    last = next(mechanism for mechanism in reversed(planned) if mechanism is not None)
    records = len(preparation.dealt.shards[agent].y)
    # A mean gradient of records clipped to C moves by at most 2 C / m; other releases are not made of one.
    clipped = preparation.configuration.privacy.clip is not None and last.name in NORMS
    return {
        "agent": agent,
        "name": preparation.dealt.names[agent],
        "records": records,
        "sensitivity": last.sensitivity,
        "scale": last.scale,
        "gradient_noise_per_clip": 2.0 * last.multiplier / records if clipped else None,
    }


def _counts(configuration: Configuration) -> list[int]:
    return sorted({*COUNTS, configuration.clock.updates})


def _compared(configuration: Configuration, preparation: Preparation, updates: int) -> dict[str, Any]:
    clock = configuration.clock.model_copy(update={"updates": updates})
    try:
        last = _last_multiplier(replace(preparation, configuration=configuration.model_copy(update={"clock": clock})))
    except ValueError as error:
        return {"updates": updates, "multiplier": None, "epsilon": None, "refused": str(error)}
    return {
        "updates": updates,
        "multiplier": last,
        "epsilon": None if configuration.privacy.mechanism == "gaussian" else 1.0 / last,
    }


def _last_multiplier(preparation: Preparation) -> float:
    """Of the last charged release; where each agent buys its own noise, of an agent with the most records."""
    from node.dealing.plan import multipliers

    bought = multipliers(preparation.configuration, preparation.dealt.dimension)
    if len(bought):
        return float(bought[-1])
    largest = max(range(preparation.agents), key=lambda agent: preparation.dealt.shards[agent].records)
    last = [mechanism for mechanism in _plan(preparation, largest, _agent_of(preparation, largest)) if mechanism][-1]
    return last.multiplier


def _show(found: dict[str, Any], console: Console) -> None:
    console.print(
        f"[bold]{found['mechanism']}[/] noise, {found['allocation']} allocation, {found['charged_releases']} charged "
        f"releases of each agent; the unit of privacy is [bold]{found['record']}[/]"
    )
    _show_total(found, console)
    _show_on_these_data(found["on_these_data"], console)
    for place, release in found["release"].items():
        cost = "no epsilon of its own" if release["epsilon"] is None else f"epsilon {_number(release['epsilon'])}"
        console.print(
            f"{place} release: {release['mechanism']} noise of {_number(release['multiplier'])} sensitivities, {cost}"
        )
    alone = found["theorem_alone"]
    if alone is not None:
        console.print(
            f"Theorem 3.5 alone would allow epsilon {_number(alone['epsilon_of_last_release'])} for the last release: "
            f"{alone['noise_factor']:.2f} times the noise"
        )
    table = Table(title="Noise of the last release by an agent's size", title_justify="left", box=None)
    for column in ("agent", "name", "records", "sensitivity", "noise scale", "noise of a mean gradient / clip"):
        table.add_column(column, justify="left" if column == "name" else "right")
    for agent in found["agents"]:
        table.add_row(
            str(agent["agent"]),
            agent["name"],
            str(agent["records"]),
            *(_number(agent[key]) for key in ("sensitivity", "scale", "gradient_noise_per_clip")),
        )
    console.print(table)
    table = Table(title="The same budget for other numbers of updates", title_justify="left", box=None)
    for column in ("updates", "noise / sensitivity, last release", "epsilon, last release"):
        table.add_column(column, justify="right")
    for row in found["updates_compared"]:
        chosen = "[bold]" if row["updates"] == found["updates"] else "[default]"
        table.add_row(f"{chosen}{row['updates']}[/]", _number(row["multiplier"]), _number(row["epsilon"]))
    console.print(table)
    if found["other_observers"] is not None:
        _show_other_observers(found["other_observers"], console)
    for warning in found["warnings"]:
        console.print(f"[yellow]warning:[/] {warning}")


def _show_total(found: dict[str, Any], console: Console) -> None:
    spent, total = found["budget"], found["total"]
    table = Table(title="Total of one agent, all its releases", title_justify="left", box=None)
    for column in ("accountant", "epsilon", ""):
        table.add_column(column, justify="right" if column == "epsilon" else "left")
    for key, name in (("plain_sum", "plain sum"), ("kairouz_theorem_3_5", "Kairouz Theorem 3.5"), ("exact", "exact")):
        table.add_row(name, _number(total[key]), "does not apply" if total[key] is None else "")
    table.add_row("[bold]charged[/]", f"[bold]{_number(total['epsilon'])}[/]", f"by: {total['accountant']}")
    table.add_row("budget", _number(spent["epsilon"]), f"at delta {spent['delta']:g}")
    from node.results.table import OBSERVERS

    for who, value in (found["observers"] or {}).items():
        table.add_row(f"towards {OBSERVERS[who]}", "all" if value is None else _number(value), "of the masked sums")
    console.print(table)
    console.print(
        f"for accounting elsewhere: zCDP rho {_number(total['zcdp_rho'])}, GDP mu {_number(total['gdp_mu'])} "
        f"({total['conversion']})"
    )


def _show_on_these_data(known: dict[str, Any] | None, console: Console) -> None:
    if known is None or (known["together"]["runs"] < 2 and known["together"]["limit"] is None):
        return
    together, earlier = known["together"], len(known["earlier_runs"])
    if together["epsilon"] is None:
        told = "no bound: releases without noise are among them"
    else:
        told = (
            f"epsilon {together['epsilon']:.4g} at delta {together['delta']:.3g}, for {together['records']} of "
            f"{together['of']} records"
        )
    runs = f"with {earlier} earlier run{'s' if earlier > 1 else ''} on these data" if earlier else "on these data"
    limit = "" if together["limit"] is None else f"; privacy.total_epsilon = {together['limit']:g}"
    console.print(f"[bold]{runs}: {told}[/]{limit}", soft_wrap=True)


def _show_other_observers(seen: dict[str, Any], console: Console) -> None:
    from node.results.table import distance_in_words

    table = Table(title="As other observers see it (not the promise)", title_justify="left", box=None)
    if seen["not_given"] is not None:
        console.print(f"As other observers see it (not the promise): not given for {seen['not_given']}")
        return
    for column in ("an agent at", "flat loss", "steep loss", "changing pull", "at most", "pairs"):
        table.add_column(column, justify="left" if column == "an agent at" else "right")
    for row in seen["distances"]:
        table.add_row(
            distance_in_words(row["hops"]),
            *(f"{row[pull][0]:.3g} to {row[pull][1]:.3g}" for pull in ("flat", "steep", "changing")),
            f"{row['epsilon']:.3g}",
            str(row["pairs"]),
        )
    console.print(table)
    keys = "have keys" if seen["links_have_keys"] else "have no keys here, so this does not hold"
    console.print(f"Epsilon at delta {seen['delta']:g} towards one agent that receives only its neighbours' releases.")
    console.print(f"Links {keys}. Assumed: {'; '.join(seen['assumes'])}.")


def _number(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"
