"""Data in place: a host makes its card from its own files, and later deals its own agents beside them.

Rules that hold here:
- Rows are read by this host's processes alone. Graph, confidences and plan follow from the cards.
- The host keeps the settings with which it made its card. An assembled run with others is refused.
- Private keys and the seed of the host's own split stay in its folder, mode 0600.
"""

from __future__ import annotations

import json
import secrets
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import zmq

from coordinator_free.agents.registry import algorithm
from node.configuration.public import dump
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.data.dealt import Dealt
from node.data.records import Sources
from node.dealing.card import (
    Assembly,
    Card,
    CardAgent,
    check_assembly,
    dealt_of,
    hosts_of,
    read_assembly,
    read_card,
    settings_digest,
)
from node.dealing.folder import deal_run
from node.dealing.rows import deal_data
from node.folder.hosts import HostShare, checked_name, write_hosts
from node.folder.keys import EAVESDROPPER_KEY, PUBLIC_KEYS, key_path
from node.folder.manifest import read_json
from node.folder.whole import write_new, write_whole
from node.places import EAVESDROPPER, agent_name
from node.plug_ins import exit_status_of
from node.processes import end_with_parent, keep_private

CARD, HELD = "card.json", "card.private.json"
"""In a host's folder: the card, and what belongs to it and is never told."""
_ROWS_OF_ALL = ("movielens-100k", "synthetic")
_GRAPHS_OF_ROWS = ("angle-similarity", "nearest-neighbours", "private-similarity", "file")


def check_in_place(c: Configuration) -> None:
    """Raise `ConfigurationError` for what needs the rows, or the files, of all hosts in one place."""
    reason = None
    if c.data.source in _ROWS_OF_ALL:
        reason = f'data.source = "{c.data.source}" makes every agent\'s rows from one place'
    elif c.topology.kind in _GRAPHS_OF_ROWS:
        reason = f'topology.kind = "{c.topology.kind}" is made from the rows of all, or from a file; use a family'
    elif c.learning.model_dump().get("smoothness") in ("data", "feature-law"):
        reason = 'learning.smoothness is made from rows; use "bound" or a public number'
    elif c.data.positive is not None and c.data.negative is None:
        reason = "data.negative is needed with data.positive: one host cannot know the labels of the others"
    elif c.privacy.budgets is not None:
        reason = "privacy.budgets names agents by the rows of one place"
    elif c.event or c.data.records_arrive or c.audit.canaries:
        reason = "[[event]], data.arriving, data.arriving_column and audit.canaries need one place that deals"
    elif algorithm(c.learning.algorithm).signs:
        reason = f'learning.algorithm = "{c.learning.algorithm}" has signatures that one place makes known'
    elif not c.encrypted:
        reason = "network.encryption = false: hosts know each other by the keys on their cards"
    if reason is not None:
        raise ConfigurationError(f"{reason}; with cards no place has the rows of all (sottovoce deal is for that)")


def make_card(configuration: Configuration, folder: Path, name: str, *, eavesdropper: bool) -> Card:
    """Read this host's data, and write its card and what belongs to it into the new ``folder``.

    Raises
    ------
    ConfigurationError
        For settings that need the rows of all hosts, or a folder that has a card already.
    """
    checked_name(name)
    check_in_place(configuration)
    if (folder / HELD).exists():
        raise ConfigurationError(f"{folder} has a card already, and its keys are in use; choose another --out")
    seed = secrets.randbits(63) if configuration.run.seed is None else configuration.run.seed
    dealt = deal_data(configuration, seed)
    pairs = [_pair() for _ in dealt.shards]
    observing = _pair() if eavesdropper else None
    card = Card(
        host=name,
        settings=settings_digest(configuration),
        agents=tuple(
            CardAgent(name=own, records=len(shard.y), test_records=len(shard.y_test), key=public)
            for own, shard, (public, _) in zip(dealt.names, dealt.shards, pairs, strict=True)
        ),
        eavesdropper=eavesdropper,
        eavesdropper_key=None if observing is None else observing[0],
        features=tuple(dealt.features),
        metric="accuracy" if dealt.metric == "accuracy" else "rmse",
        record=dealt.record,
        row_bounds={"l1" if kind == "l1" else "l2": bound for kind, bound in dealt.row_bounds.items()},
        label_bound=dealt.label_bound,
        public_assumptions=dealt.public_assumptions,
    )
    held = {
        "configuration": dump(configuration),
        "seed": seed,
        "digest": dealt.digest,
        "keys": [private for _, private in pairs],
        "eavesdropper": None if observing is None else observing[1],
    }
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_new(folder / HELD, json.dumps(held, allow_nan=False).encode())
    write_whole(folder / CARD, (card.model_dump_json(indent=1) + "\n").encode(), 0o644)
    return card


def _pair() -> tuple[str, str]:
    public, private = zmq.curve_keypair()
    return public.decode(), private.decode()


def deal_in_place(folder: Path, assembly: Assembly) -> Path:
    """Deal this host's agents of an assembled run; returns its part, a folder in ``folder`` named by the run.

    Raises
    ------
    ConfigurationError
        If the assembled run does not hold this host's card as it was made, has other settings, or the data changed.
    """
    held, card = read_json(folder / HELD), read_card(folder / CARD)
    if card not in assembly.cards:
        raise ConfigurationError(f"assembled run: it does not hold the card in {folder} as it was made")
    part = folder / f"run-{assembly.run[:12]}"
    if (part / "manifest.json").exists():
        return part
    configuration = from_table(tomllib.loads(held["configuration"]))
    check_in_place(configuration)
    check_assembly(configuration, assembly)
    own = deal_data(configuration, held["seed"])
    if own.digest != held["digest"]:
        raise ConfigurationError(
            f"data.path = {configuration.data.path}: changed since the card was made; make a new one"
        )
    hosts = hosts_of(assembly)
    share = next(host for host in hosts if host.name == card.host)
    dealt = _with_sources(dealt_of(assembly, card.host, own), own, share)

    def add(building: Path) -> None:
        write_hosts(building, hosts)
        _write_keys(building, assembly, share, held["keys"], held["eavesdropper"])

    deal_run(configuration, part, dealt=dealt, seed=assembly.seed, run=assembly.run, own=share.agents, add=add)
    return part


def _with_sources(dealt: Dealt, own: Dealt, share: HostShare) -> Dealt:
    """The registry counts this host's records alone."""
    if own.sources is None:
        return dealt
    none = own.sources.training[0][:0]
    training = [none] * len(dealt.shards)
    for agent, rows in zip(share.agents, own.sources.training, strict=True):
        training[agent] = rows
    return replace(dealt, sources=Sources(own.sources.columns, tuple(training)))


def _write_keys(
    building: Path, assembly: Assembly, share: HostShare, private: list[str], eavesdropper: str | None
) -> None:
    for agent, key in zip(share.agents, private, strict=True):
        write_new(key_path(building, agent), key.encode())
    if eavesdropper is not None:
        write_new(building / EAVESDROPPER_KEY, eavesdropper.encode())
    agents = [agent for card in assembly.cards for agent in card.agents]
    lines = [f"{agent_name(number)} {agent.key}\n" for number, agent in enumerate(agents)]
    lines += [f"{EAVESDROPPER} {card.eavesdropper_key}\n" for card in assembly.cards if card.eavesdropper_key]
    write_whole(building / PUBLIC_KEYS, "".join(lines).encode(), 0o644)


def main() -> int:
    """``python -m node.dealing.in_place FOLDER ASSEMBLED``: prints the part; exit status 2 for bad input."""
    return exit_status_of(
        lambda: print(deal_in_place(Path(sys.argv[1]), read_assembly(Path(sys.argv[2])))), ValueError, OSError
    )


if __name__ == "__main__":
    keep_private()
    end_with_parent()
    sys.exit(main())
