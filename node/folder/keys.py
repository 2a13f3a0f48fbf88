"""Key pairs of encrypted links: one for each agent and one for the eavesdropper.

Rules that hold here:
- A private key lies in its owner's folder, mode 0600, and nowhere else: not in a manifest, log, configuration or error.
- Public keys are lines of one public file; no agent accepts messages from a key that is not in it.
- Keys decide which processes may receive and send. What is released is protected by noise alone: an eavesdropper may
  have a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import zmq

from node.folder.whole import write_whole
from node.places import EAVESDROPPER, agent_folder, agent_name

PUBLIC_KEYS: Final = "public-keys"
"""In a run's folder and in each part: lines of a name and a public key in Z85."""
AGENT_KEY: Final = "curve.key"
"""In an agent's own folder: its private key in Z85."""
EAVESDROPPER_KEY: Final = "eavesdropper.key"
"""In the folder of a run or of the eavesdropper's part: the eavesdropper's private key in Z85."""
_LENGTH: Final = 40
"""Characters of a key in Z85."""


class KeysError(ValueError):
    """A key that is missing or is none; one line that never holds a private key."""


@dataclass(frozen=True)
class Keys:
    """What one process needs: its own pair, and the public keys of those it receives from and sends to (all Z85).

    ``agents`` has the public key of each agent it was asked for; ``eavesdropper`` is None where there is none.
    """

    public: bytes
    private: bytes = field(repr=False)
    agents: Mapping[int, bytes]
    eavesdropper: bytes | None = None

    @property
    def admitted(self) -> frozenset[bytes]:
        """The public keys of all processes that may receive."""
        return frozenset(self.agents.values()) | ({self.eavesdropper} if self.eavesdropper is not None else set())


def key_path(folder: Path, agent: int | None) -> Path:
    """Where a private key lies in a run or a part; None is the eavesdropper's."""
    return folder / EAVESDROPPER_KEY if agent is None else agent_folder(folder, agent) / AGENT_KEY


def make_keys(folder: Path, owners: Iterable[int | None]) -> dict[str, str]:
    """New key pairs for ``owners`` (None: the eavesdropper) in a run or a part; returns the public keys by name.

    Private keys that are there are replaced; the public keys of others are kept.
    """
    made: dict[str, str] = {}
    for owner in owners:
        public, private = zmq.curve_keypair()
        write_whole(key_path(folder, owner), private)
        made[_name(owner)] = public.decode()
    known = _public_keys(folder) if (folder / PUBLIC_KEYS).exists() else {}
    lines = (f"{name} {key}\n" for name, key in sorted((known | made).items()))
    write_whole(folder / PUBLIC_KEYS, "".join(lines).encode(), 0o644)
    return made


def read_keys(folder: Path, owner: int | None, agents: Iterable[int], *, eavesdropper: bool = False) -> Keys:
    """The keys of ``owner`` (None: the eavesdropper) in a run or a part, and the public ones of ``agents``.

    Raises `KeysError` for a key that is missing, damaged, or readable by others than its owner.
    """
    path = key_path(folder, owner)
    try:
        private, mode = path.read_bytes(), path.stat().st_mode
    except OSError as error:
        raise KeysError(f"private key {path} cannot be read: {error.strerror}; `sottovoce keys` makes one") from None
    if mode & 0o077:
        raise KeysError(f"private key {path} has mode {mode & 0o777:04o}: accepted is 0600, its owner's alone")
    try:
        public = zmq.curve_public(private)
    except (zmq.ZMQError, ValueError, KeyError, AssertionError):
        raise KeysError(f"private key {path} is damaged: accepted are {_LENGTH} characters of Z85") from None
    wanted = list(agents)
    known = _public_keys(folder, frozenset(map(_name, [*wanted, None])))
    return Keys(
        public,
        private,
        {j: _of(known, folder, j) for j in wanted},
        _of(known, folder, None) if eavesdropper else None,
    )


def _of(known: Mapping[str, str], folder: Path, owner: int | None) -> bytes:
    try:
        return known[_name(owner)].encode()
    except KeyError:
        raise KeysError(f"{folder / PUBLIC_KEYS}: no public key of {_name(owner)}") from None


def _public_keys(folder: Path, wanted: frozenset[str] | None = None) -> dict[str, str]:
    """All public keys by name, or those of the ``wanted`` names: an agent keeps its neighbours' of perhaps 100,000."""
    path = folder / PUBLIC_KEYS
    known: dict[str, str] = {}
    try:
        with path.open(encoding="ascii") as lines:
            for number, line in enumerate(lines, 1):
                name, _, key = line.rstrip("\n").partition(" ")
                if wanted is not None and name not in wanted:
                    continue
                if len(key) != _LENGTH or name in known:
                    raise KeysError(
                        f"{path}, line {number}: accepted is a name, a space and {_LENGTH} characters, once a name"
                    )
                known[name] = key
    except (OSError, UnicodeDecodeError) as error:
        raise KeysError(f"public keys {path} cannot be read: {getattr(error, 'strerror', error)}") from None
    return known


def _name(owner: int | None) -> str:
    return EAVESDROPPER if owner is None else agent_name(owner)
