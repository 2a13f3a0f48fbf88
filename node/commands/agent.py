"""``sottovoce agent``: one agent by hand, for several hosts and for containers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from node.places import agent_name


def agent(
    shard: Annotated[
        Path, typer.Option("--shard", help="The agent's part of a dealt run: its folder, or the shard file in it.")
    ],
    bind: Annotated[
        str, typer.Option("--bind", metavar="HOST:PORT", help="The address at which neighbours connect to it.")
    ],
    neighbours: Annotated[
        list[str] | None,
        typer.Option(
            "--neighbours",
            metavar="N=HOST:PORT,...",
            help="The addresses of its neighbours; a pattern such as agent-{}:7700 stands for all that are not named.",
        ),
    ] = None,
) -> None:
    """Run one agent on this host, or go on with an interrupted one.

    The command ends when the agent has finished. The agent needs its own part (shard, ledger, secret), as `sottovoce
    deal --parts` makes it, and its neighbours' addresses.

    Example: sottovoce agent --shard agent-0002 --bind 0.0.0.0:7700 --neighbours 1=alpha:7700,3=[2001:db8::3]:7700
    """
    from node.agent.process import run_from_folder
    from node.folder.counted import read_counted
    from node.folder.shard import read_rows
    from node.places import shard_path
    from node.sockets.names import NamedEndpoints, endpoint, neighbours_of

    folder, number = part_of(shard)
    _, public = read_rows(shard_path(folder, number))
    known = neighbours_of(neighbours or [], public.neighbours)
    names = NamedEndpoints(known)
    try:
        code = run_from_folder(folder, number, endpoint(bind), endpoints=names)
    finally:
        names.close()
    counted = read_counted(folder, number)
    for note in () if counted is None else counted.notes:
        print(f"{agent_name(number)}: {note}", file=sys.stderr)
    if counted is not None and code == 0:
        print(f"{agent_name(number)}: finished, {counted.sent} releases sent, {counted.received} received")
    elif counted is not None and counted.reason not in counted.notes:
        print(f"{agent_name(number)}: {counted.reason}", file=sys.stderr)
    raise typer.Exit(code)


def part_of(shard: Path) -> tuple[Path, int]:
    """The part's folder and the agent's number, from the folder or the shard file in it. Raises `ShardError`."""
    from node.folder.shard import ShardError

    if shard.is_dir():
        found = sorted(shard.glob("shards/agent-*.npz"))
        if len(found) != 1:
            held = f"holds {len(found)} shards" if found else "holds no shard"
            raise ShardError(f"--shard {shard}: {held}; accepted is a folder with one, shards/agent-NNNN.npz")
        shard = found[0]
    number = shard.stem.removeprefix("agent-")
    if shard.parent.name != "shards" or shard.suffix != ".npz" or not number.isdigit():
        raise ShardError(f"--shard {shard}: accepted is FOLDER or FOLDER/shards/agent-NNNN.npz, as it was dealt")
    if not shard.exists():
        raise ShardError(f"--shard {shard}: no such file")
    return shard.parent.parent, int(number)
