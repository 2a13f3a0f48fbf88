"""``sottovoce agent``: one agent by hand, for several hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from node.transport import FixedEndpoints, TransportError


def agent(
    run: Annotated[Path, typer.Option("--run", help="A folder with this agent's shard, ledger and secret.")],
    number: Annotated[int, typer.Option("--agent", help="The agent's number.")],
    bind: Annotated[str, typer.Option("--bind", help="Where it can be heard: host:port.")],
    neighbours: Annotated[
        list[str] | None, typer.Option("--neighbour", metavar="NUMBER=HOST:PORT", help="Repeat for each neighbour.")
    ] = None,
) -> None:
    """Run one agent of a dealt run on this host until it has finished.

    Example: sottovoce agent --run . --agent 2 --bind 0.0.0.0:7700 --neighbour 1=alpha:7700 --neighbour 3=[::1]:7703
    """
    from node.agent_process import run_from_folder

    known = dict(_neighbour(text) for text in neighbours or [])
    code = run_from_folder(run, number, endpoint(bind), endpoints=FixedEndpoints(known))
    raise typer.Exit(code)


def _neighbour(text: str) -> tuple[int, str]:
    number, equals, address = text.partition("=")
    if not equals or not number.isdigit():
        raise TransportError(f"--neighbour {text}: accepted is NUMBER=HOST:PORT")
    return int(number), endpoint(address)


def endpoint(address: str) -> str:
    """The tcp endpoint of ``host:port`` or ``[ipv6]:port``; full endpoints pass. Raises `TransportError`."""
    if "://" in address:
        return address
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise TransportError(f"address {address}: accepted is host:port or [ipv6]:port")
    return f"tcp://{host}:{port}"
