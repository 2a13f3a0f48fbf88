"""``sottovoce topology``: describes the graph of a configuration and draws it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from node.commands.arguments import Override, there
from node.commands.documents import document_text

if TYPE_CHECKING:
    from rich.table import Table

    from node.configuration.sections import Configuration
    from topology.network import Network
    from topology.spectrum import Extremes, Facts

_NAMED = 12
"""So many bridges and cut agents are named; the JSON document has them all."""
_SMALL = 24
"""The neighbours of each agent are shown up to this many agents; the JSON document has them all."""


def topology(
    config: Annotated[
        Path,
        typer.Argument(metavar="CONFIG.toml|RUN", help="A configuration, or the folder of a run.", show_default=False),
    ],
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.png|svg", help="Draw the graph into this file.", show_default=False)
    ] = None,
    override: Override = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Describe the graph of a configuration or of a run, and draw it. Nothing is run or dealt to disk.

    Example: sottovoce topology examples/schools.toml --picture schools.svg
    """
    from rich.console import Console

    format = _picture_format(picture)
    configuration, network = _graph_of(config, override or [])
    from topology import spectrum

    facts = spectrum.facts(network)
    kind = configuration.topology.kind
    seeded = configuration.topology.seed is not None or configuration.run.seed is not None
    if picture is not None:
        from node.dealing import graph_picture as network_picture

        image = network_picture.draw(network, facts, f"{configuration.run.name}: {kind}", format)
        try:
            picture.write_bytes(image)
        except OSError as error:
            raise ValueError(f"--picture {picture}: {error.strerror}; give a file in a folder that is there") from None
    if as_json:
        neighbours = [network.neighbours(agent) for agent in range(facts.agents)]
        found = {"kind": kind, "digest": network.digest(), **dataclasses.asdict(facts), "neighbours": neighbours}
        print(document_text(found))
        return
    console = Console(highlight=False)
    console.print(_table(kind, network, facts))
    if not seeded and not config.is_dir():
        console.print("No seed is set (run.seed or topology.seed): each run draws its data and graph anew.")
    if picture is not None:
        console.print(f"picture: {picture}", soft_wrap=True)


def _graph_of(place: Path, overrides: list[str]) -> tuple[Configuration, Network]:
    """The configuration and the graph of a configuration file, or of a run as it was dealt."""
    if not place.is_dir():
        there(place)
    from node.configuration.reading import load, load_dealt

    if not place.is_dir():
        configuration = load(place, overrides)
        from node.dealing.graph import network as graph_of

        return configuration, graph_of(configuration)
    from topology import files

    if overrides:
        raise ValueError(
            f"--set {overrides[0]}: accepted with a configuration; {place} is a folder, whose graph is dealt"
        )
    try:
        graph = (place / "topology.graphml").read_bytes()
    except OSError as error:
        raise ValueError(
            f"{error.filename}: {error.strerror}; accepted is a configuration or the folder of a run"
        ) from None
    return load_dealt(place / "config.toml"), files.parse(graph, "graphml")


def _picture_format(picture: Path | None) -> str:
    if picture is None:
        return ""
    from node.dealing.graph_picture import FORMATS

    format = picture.suffix.removeprefix(".").lower()
    if format not in FORMATS:
        raise ValueError(f"--picture {picture}: the file's name must end in .png or .svg")
    return format


def _table(kind: str, network: Network, facts: Facts) -> Table:
    from rich.table import Table

    table = Table(title=f"{kind}, {facts.agents:,} agents", title_justify="left", show_header=False, box=None)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    least, mean, most = facts.degrees
    low, high = facts.diameter
    rows = [
        ("edges", f"{facts.edges:,}", ""),
        ("neighbours", f"{least}" if least == most else f"{least} to {most}, mean {mean:.2f}", "of an agent"),
        ("weights", _span(facts.weights), "W_ij"),
        ("weighted degrees", _span(facts.weighted_degrees), "D_ii, sums of an agent's W_ij"),
        ("diameter", str(low) if low == high else f"{low} to {high}", "most hops between two agents"),
        ("bipartite", "yes" if facts.bipartite else "no", "two groups, no edge within"),
        ("algebraic connectivity", _number(facts.algebraic_connectivity), "of the weighted Laplacian"),
        ("L_- = D - A", _extremes(facts.signed), "least nonzero, largest eigenvalue"),
        ("L_+ = D + A", _extremes(facts.signless), "least nonzero, largest eigenvalue"),
        ("Metropolis gap", _number(facts.metropolis_gap), "averaging: error times 1 - gap a round"),
        ("lazy walk gap", _number(facts.lazy_gap), "of (I + D^-1 W)/2, weights counted"),
    ]
    bridges = None if facts.bridges is None else [f"{i}-{j}" for i, j in facts.bridges]
    cut = None if facts.cut_agents is None else [str(agent) for agent in facts.cut_agents]
    for name, weak, meaning in (
        ("bridges", bridges, "edges without which it falls apart"),
        ("cut agents", cut, "agents without which it falls apart"),
    ):
        rows.append((name, "not searched for" if weak is None else str(len(weak)), meaning))
        if weak:
            more = f", ... {len(weak) - _NAMED} more" if len(weak) > _NAMED else ""
            rows.append(("", "", ", ".join(weak[:_NAMED]) + more))
    if facts.agents <= _SMALL:
        every = [network.neighbours(agent) for agent in range(facts.agents)]
        rows += [(f"neighbours of {agent}", str(len(own)), ", ".join(map(str, own))) for agent, own in enumerate(every)]
    rows.append(("digest", network.digest()[:16] + "...", "equal for equal graphs"))
    for row in rows:
        table.add_row(*row)
    return table


def _number(value: float | None) -> str:
    return "not found" if value is None else f"{value:.4g}"


def _extremes(extremes: Extremes) -> str:
    return f"{_number(extremes.smallest_nonzero)}, {_number(extremes.largest)}"


def _span(span: tuple[float, float] | None) -> str:
    if span is None:
        return "none"
    low, high = span
    return f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
