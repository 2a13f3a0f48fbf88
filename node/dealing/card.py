"""A host's card: what it tells the other hosts of the agents that it holds; and what follows from all cards.

Rules that hold here:
- A card holds no row and nothing computed from rows, except the numbers of records, which are public.
- Cards come from strangers. What does not have the form of a card, or does not fit the other cards, is refused in one
  line that names the host.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError

from node.configuration.public import public_part
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.data.dealt import Dealt, Shard
from node.folder.hosts import HostShare, checked_name

MOST_RECORDS = 10**8
"""Records of one agent that a card may claim."""
MOST_AGENTS = 10**5
"""Agents of one host."""
LARGEST = 1 << 26
"""Bytes of a card or an assembly that are read."""
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,100}")


def _printable(name: str) -> str:
    if not _NAME.fullmatch(name) or not name.isprintable():
        raise ValueError("should be 1 to 100 printable characters")
    return name


Name = Annotated[str, AfterValidator(_printable)]
Key = Annotated[str, Field(pattern=r"^[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Document = TypeVar("Document", bound=BaseModel)
_FROM_STRANGERS = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class CardAgent(BaseModel):
    """One agent of a card: its name, its numbers of records, and its public key (Z85; None where links have none)."""

    model_config = _FROM_STRANGERS

    name: Name
    records: int = Field(ge=0, le=MOST_RECORDS)
    test_records: int = Field(ge=0, le=MOST_RECORDS)
    key: Key | None


class Card(BaseModel):
    """The card of one host."""

    model_config = _FROM_STRANGERS

    sottovoce_card: Literal[1] = 1
    host: Annotated[str, AfterValidator(checked_name)]
    settings: Digest
    """Of the settings that all hosts must share."""
    agents: Annotated[tuple[CardAgent, ...], Strict(False)] = Field(min_length=1, max_length=MOST_AGENTS)
    eavesdropper: bool
    """Whether this host runs the eavesdropper."""
    eavesdropper_key: Key | None
    features: Annotated[tuple[Name, ...], Strict(False)] = Field(min_length=1)
    metric: Literal["accuracy", "rmse"]
    record: Name
    row_bounds: dict[Literal["l1", "l2"], Annotated[float, Field(gt=0)]]
    label_bound: Annotated[float, Field(gt=0)] | None
    public_assumptions: Annotated[tuple[Name, ...], Strict(False)]


class Assembly(BaseModel):
    """All cards of a run, and what had to be drawn once for all hosts: the run's id and its seed."""

    model_config = _FROM_STRANGERS

    sottovoce_run: Literal[1] = 1
    run: str = Field(pattern=r"^[0-9a-f]{32}$")
    seed: int = Field(ge=0, lt=2**63)
    cards: Annotated[tuple[Card, ...], Strict(False)] = Field(min_length=1)


def settings_digest(configuration: Configuration) -> str:
    """SHA-256 (hex) of the settings that all hosts must share: all but paths, names and how a host deals its rows."""
    network = configuration.network.model_dump(mode="json", by_alias=True, exclude={"folder", "host", "transport"})
    document = {
        "public": public_part(configuration),
        "network": network,
        "encryption": configuration.encrypted,
        "eavesdropper": configuration.eavesdropper.enabled,
        "seeds": [configuration.run.seed, configuration.topology.seed],
        "simulation": configuration.run.simulation,
    }
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


def read_card(path: Path) -> Card:
    """Read a card; raises `ConfigurationError` for anything else."""
    return _read(path, Card, "card")


def read_assembly(path: Path) -> Assembly:
    """Read assembled cards, and check that they fit; raises `ConfigurationError` for anything else."""
    assembly = _read(path, Assembly, "assembled run")
    check_together(assembly.cards)
    return assembly


def _read(path: Path, kind: type[Document], what: str) -> Document:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigurationError(f"{what} {path}: {error.strerror}; give a file that sottovoce wrote") from None
    if len(data) > LARGEST:
        raise ConfigurationError(f"{what} {path}: has more than {LARGEST} bytes")
    try:
        return kind.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigurationError(f"{what} {path}: {place}: {first['msg']}") from None


def check_together(cards: Sequence[Card]) -> None:
    """Raise `ConfigurationError` for cards that do not make one run."""
    first = cards[0]
    _once("host", [card.host for card in cards])
    keys = [agent.key for card in cards for agent in card.agents if agent.key is not None]
    _once("key", keys + [card.eavesdropper_key for card in cards if card.eavesdropper_key is not None])
    for card in cards:
        _once(f"host {card.host}: agent", [agent.name for agent in card.agents])
        for name in ("settings", "features", "metric", "record", "row_bounds", "label_bound"):
            if getattr(card, name) != getattr(first, name):
                raise ConfigurationError(f"card of {card.host}: {_differs(name)} than on the card of {first.host}")
        if card.eavesdropper_key is not None and not card.eavesdropper:
            raise ConfigurationError(f"card of {card.host}: has a key of an eavesdropper, and runs none")
    observing = [card.host for card in cards if card.eavesdropper]
    if len(observing) > 1:
        raise ConfigurationError(f"cards of {' and '.join(observing)}: each runs an eavesdropper; accepted is one host")


def _differs(name: str) -> str:
    if name == "settings":
        return "other settings (algorithm, clock, privacy, network, topology or seeds)"
    return f"another {name.replace('_', ' ')}"


def _once(what: str, values: Sequence[str]) -> None:
    twice = [value for value, count in Counter(values).items() if count > 1]
    if twice:
        raise ConfigurationError(f"cards: {what} {twice[0]!r} comes twice; accepted is each once")


def check_assembly(configuration: Configuration, assembly: Assembly) -> None:
    """Raise `ConfigurationError` unless the cards were made with the settings of ``configuration``."""
    card = assembly.cards[0]
    if card.settings != settings_digest(configuration):
        raise ConfigurationError(
            f"card of {card.host}: {_differs('settings')} than in the configuration; make the cards again from one file"
        )
    agents = [agent for card in assembly.cards for agent in card.agents]
    if configuration.encrypted and not all(agent.key for agent in agents):
        raise ConfigurationError("cards: an agent has no key, and network.encryption needs one of each")
    observing = [card for card in assembly.cards if card.eavesdropper]
    if configuration.eavesdropper.enabled and not observing:
        raise ConfigurationError(
            "cards: no host runs the eavesdropper; make one card with --eavesdropper, or set eavesdropper.enabled = "
            "false"
        )
    if observing and configuration.encrypted and observing[0].eavesdropper_key is None:
        raise ConfigurationError(f"card of {observing[0].host}: the eavesdropper has no key")


def hosts_of(assembly: Assembly) -> list[HostShare]:
    """Each host's agents: numbered in the order of the cards."""
    hosts, first = [], 0
    for card in assembly.cards:
        numbers = tuple(range(first, first + len(card.agents)))
        hosts.append(HostShare(card.host, numbers, card.eavesdropper))
        first += len(card.agents)
    return hosts


def dealt_of(assembly: Assembly, host: str = "", own: Dealt | None = None) -> Dealt:
    """What is dealt in the run: the rows of ``host`` as ``own`` has them, and rows without features for the others."""
    first = assembly.cards[0]
    shards: list[Shard] = []
    for card in assembly.cards:
        blank = (_blank(agent.records, agent.test_records) for agent in card.agents)
        shards += own.shards if own is not None and card.host == host else blank
    return Dealt(
        shards=tuple(shards),
        names=tuple(f"{card.host}/{agent.name}" for card in assembly.cards for agent in card.agents),
        features=first.features,
        metric=first.metric,
        record=first.record,
        row_bounds={str(norm): bound for norm, bound in first.row_bounds.items()},
        label_bound=first.label_bound,
        public_assumptions=tuple(dict.fromkeys(line for card in assembly.cards for line in card.public_assumptions)),
    )


def _blank(records: int, tests: int) -> Shard:
    """Rows of another host: only their number is known."""
    return Shard(np.zeros((records, 0)), np.ones(records), np.zeros((tests, 0)), np.ones(tests))
