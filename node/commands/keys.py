"""``sottovoce keys``: new key pairs for the encrypted links of a dealt run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def keys(
    folder: Annotated[Path, typer.Argument(help="The folder of a run, or of an agent's or the eavesdropper's part.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the public keys as JSON.")] = False,
) -> None:
    """Replace the key pairs in a dealt folder by new ones.

    The new public keys are printed. Private keys stay where they are made, mode 0600, and are never shown. In a part,
    only its owner's pair is new: put the line that is printed in the place of the old one in the file public-keys of
    every other part.

    Example: sottovoce keys parts/agent-0002
    """
    from node.folder.keys import AGENT_KEY, EAVESDROPPER_KEY, PUBLIC_KEYS, KeysError, make_keys

    if not (folder / PUBLIC_KEYS).is_file():
        raise KeysError(
            f"{folder}: no file {PUBLIC_KEYS}; accepted is a run dealt with network.encryption = true, or a part of one"
        )
    owners: list[int | None] = [
        int(path.parent.name.removeprefix("agent-")) for path in sorted(folder.glob(f"agents/agent-*/{AGENT_KEY}"))
    ]
    if (folder / EAVESDROPPER_KEY).exists():
        owners.append(None)
    if not owners:
        raise KeysError(f"{folder}: no private key to replace; the parts hold them, so name a part")
    made = make_keys(folder, owners)
    print(
        json.dumps(made, indent=1, allow_nan=False)
        if as_json
        else "\n".join(f"{name} {key}" for name, key in made.items())
    )
