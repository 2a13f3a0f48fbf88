"""Dealing a run: data, graph and noise become one folder that agents start from.

Rules that hold here:
- Dealing is a short-lived process of its own: no long-lived process ever holds the data.
- A folder is claimed, built under a temporary name and renamed (`node.dealing.place`): a half-made run never has the
  run's name.
- Going on in an existing folder (``force``) touches no ledger: ledgers stay where they are, and only the same rows may
  go on with them.
- Each agent's noise secret is drawn from the operating system; only a simulation takes it from the seed.
- What the manifest says is public. The digest of the data is not (it would confirm a guess of a missing record): it
  stays in ``dealt.json``, mode 0600.
"""

from __future__ import annotations

import importlib.metadata
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from coordinator_free.agents.personal import signatures
from coordinator_free.agents.registry import algorithm, make
from coordinator_free.privacy.ledger import Budget, Charge, LedgerError
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.windows import Windows
from coordinator_free.problem.losses import loss
from node.configuration.public import dump, public_digest
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.data.dealt import Dealt
from node.dealing.graph import public_assumptions
from node.dealing.place import claimed, fill
from node.dealing.preparation import Preparation, noise_secret, prepare
from node.dealing.reservation import place_of, reserved, warning_of
from node.folder.build import build
from node.folder.canaries import Coins, Planted, write_canaries
from node.folder.keys import make_keys
from node.folder.ledger import LedgerFile
from node.folder.manifest import Manifest, Metric, Seeds
from node.folder.profiles import charged_as, write_profiles
from node.folder.public import PublicNumbers
from node.folder.shard import setting, write_shard
from node.folder.whole import write_document, write_new, write_whole
from node.places import agent_folder, shard_path


def deal_run(
    configuration: Configuration,
    folder: Path,
    *,
    force: bool = False,
    dealt: Dealt | None = None,
    seed: int | None = None,
    run: str | None = None,
    own: Sequence[int] | None = None,
    add: Callable[[Path], None] | None = None,
) -> Manifest:
    """Deal ``configuration`` into the run folder ``folder``; returns its manifest.

    Where the data are in place (`node.dealing.in_place`), ``dealt``, ``seed`` and the id ``run`` are given, only the
    agents ``own`` are dealt, and ``add`` writes their keys.

    Raises `ConfigurationError` or another ValueError of one line; a folder that holds anything is one, unless it is a
    run and ``force`` is given.
    """
    folder = folder.resolve()
    with claimed(folder, force=force) as building:
        secret_of = cache(partial(noise_secret, configuration))
        preparation = prepare(configuration, seed, dealt, secret_of=secret_of)
        for ledger in folder.glob("agents/agent-*/ledger.jsonl"):
            if int(ledger.parent.name.removeprefix("agent-")) >= preparation.agents:
                raise ConfigurationError(
                    f"--force: {ledger} is of an agent that the new run does not have, and ledgers are never deleted; "
                    "choose another --out or run.name"
                )
        manifest, plans = _write(preparation, secret_of, building, folder, run or secrets.token_hex(16), own)
        if add is not None:
            add(building)
        with reserved(preparation, plans, manifest.run.hex(), folder, building):
            fill(folder, building)
    return manifest


def _write(
    preparation: Preparation,
    secret_of: Callable[[int], bytes],
    building: Path,
    folder: Path,
    run: str,
    own: Sequence[int] | None,
) -> tuple[Manifest, list[list[Mechanism | None]]]:
    """Write everything but ``dealt.json``; returns the manifest, and the mechanism of each release of each agent.

    Profiles are charged before they are written, and are among the mechanisms.
    """
    from topology import files

    c, dealt, graph = preparation.configuration, preparation.dealt, preparation.network
    digest = public_digest(c, graph.digest()).hex()
    judge = loss(c.learning.loss)
    write_whole(building / "config.toml", dump(c).encode(), 0o644)
    (building / "shards").mkdir(mode=0o700)
    (building / "agents").mkdir(mode=0o700)
    (building / "endpoints").mkdir(mode=0o755)
    indices: list[int] = []
    plans: list[list[Mechanism | None]] = []
    noise_secrets = [secret_of(agent) for agent in range(preparation.agents)]
    signers = _signers(c, noise_secrets, bytes.fromhex(run))
    numbers: list[PublicNumbers] = []
    for agent in range(preparation.agents):
        # An agent that opts out has room in its ledger for runs to come, and is charged nothing now.
        epsilon, delta = preparation.budget(agent) or (0.0, 0.0)
        budget = Budget(epsilon or float(c.privacy.epsilon or 0.0), delta) if c.private else None
        rows = preparation.rows(agent)
        shard_digest = rows.digest()
        public = replace(
            _signing(preparation.public(agent), signers),
            run=bytes.fromhex(run),
            digest=bytes.fromhex(digest),
            shard_digest=shard_digest,
        )
        numbers.append(public)
        indices.append(public.releases)
        if own is not None and agent not in own:
            plans.append([])
            continue
        write_shard(shard_path(building, agent), rows, public)
        place = agent_folder(building, agent)
        place.mkdir(mode=0o700)
        secret = noise_secrets[agent]
        write_new(place / "secret", secret)
        speaker = make(c.learning.algorithm, setting(rows, public, secret))
        plan = [speaker.charge(index) for index in range(public.releases)]
        profile = next(iter(preparation.profile_charges(agent)), None)
        plans.append([*preparation.profile_charges(agent), *plan])
        before = None if profile is None else Charge(charged_as(run), 0, 0, profile)
        kept = agent_folder(folder, agent) / "ledger.jsonl"
        if kept.exists():
            _check_room(kept, shard_digest, budget, run, plans[-1], speaker.windows)
            _charge(kept, shard_digest, before)
        else:
            LedgerFile.create(place / "ledger.jsonl", shard_digest, dealt.record, budget, plan, before, speaker.windows)
    if (flipped := preparation.flipped) is not None:
        coins = Coins(bytes.fromhex(run), flipped.nonce, flipped.sides)
        delta = max(budget[1] for budget in map(preparation.budget, range(preparation.agents)) if budget is not None)
        write_canaries(building, Planted(flipped.canaries, coins.commitment, tuple(numbers), delta), coins)
    if preparation.profiles is not None:
        write_profiles(building, preparation.profiles.vectors)
    write_whole(building / "topology.graphml", files.write(graph, "graphml"), 0o644)
    if c.encrypted and own is None:
        make_keys(building, [*range(preparation.agents), *([None] if c.eavesdropper.enabled else [])])
    manifest = Manifest(
        sottovoce=importlib.metadata.version("sottovoce"),
        run=bytes.fromhex(run),
        name=c.run.name,
        agents=preparation.agents,
        names=tuple(dealt.names),
        records=tuple(len(shard.y) for shard in dealt.shards),
        releases=tuple(indices),
        features=tuple(dealt.features),
        dimension=dealt.dimension,
        metric=Metric(judge.metric, judge.larger_is_better),
        algorithm=c.learning.algorithm,
        record=dealt.record,
        privacy=c.privacy.model_dump(exclude_none=True),
        simulation=c.run.simulation,
        topology_digest=graph.digest(),
        configuration_digest=digest,
        seeds=_seeds(preparation),
        public_assumptions=public_assumptions(c, dealt),
        warnings=(*preparation.warnings, *warning_of(c, place_of(c, folder))),
        build=build(),
    )
    write_document(building / "manifest.json", manifest.to_json(), 0o644)
    return manifest, plans


def _signers(configuration: Configuration, noise_secrets: Sequence[bytes], run: bytes) -> list[str]:
    """The public keys by which agents check what others pass on; empty where no agent signs."""
    if not algorithm(configuration.learning.algorithm).signs or not signatures.available():
        return []
    return [signatures.verification_key(secret, run).hex() for secret in noise_secrets]


def _signing(public: PublicNumbers, signers: list[str]) -> PublicNumbers:
    """The public numbers of an agent whose releases are signed, if there are ``signers``."""
    if not signers:
        return public
    learning = {**public.learning, "signers": signers}
    return replace(public, learning=learning, release_dimension=public.release_dimension + signatures.NUMBERS)


def _check_room(
    ledger: Path,
    shard_digest: str,
    budget: Budget | None,
    run: str,
    plan: Sequence[Mechanism | None],
    windows: Windows,
) -> None:
    """Raise a one-line error unless an old ledger is of the same rows and is free, and has room for the new run."""
    try:
        with LedgerFile.open(ledger, shard_digest) as held:
            if (held.budget is None) != (budget is None):
                # With a budget, a release without a mechanism would pass as one that holds nothing of the data.
                raise LedgerError(
                    f"ledger {ledger} is of a run {'without' if held.budget is None else 'with'} a budget"
                )
            held.admit(run, plan, windows)
    except LedgerError as error:
        raise ConfigurationError(
            f"--force: {error}; ledgers are never deleted: to go on with a run that was interrupted, use sottovoce "
            f"resume {ledger.parents[2]}; for a new run choose another --out or run.name"
        ) from None


def _charge(ledger: Path, shard_digest: str, profile: Charge | None) -> None:
    """Charge a profile to a ledger that is there already, on the disk before the profile is written anywhere."""
    if profile is None:
        return
    with LedgerFile.open(ledger, shard_digest) as held:
        held.admit(profile.run, [profile.mechanism])
        held.reserve(0, 0, profile.mechanism, extra={"run": profile.run})


def _seeds(preparation: Preparation) -> Seeds:
    simulated = preparation.configuration.run.simulation
    return Seeds(
        seed=preparation.seed,
        drawn=preparation.configuration.run.seed is None,
        seeds=("splits", "graph", "clocks", "network conditions", *(["noise"] if simulated else [])),
        noise="from run.seed: a simulation" if simulated else "each agent's own secret, from the operating system",
    )
