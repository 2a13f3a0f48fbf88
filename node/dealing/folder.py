"""Dealing a run: data, graph and noise become one folder that agents start from.

Rules that hold here:
- Dealing is a process of its own, so that nobody who lives on has held the data.
- A folder is built under a temporary name and renamed: a half-made run never has the run's name.
- Going on in an existing folder (``force``) touches no ledger: ledgers stay where they are, and only the same rows may
  go on with them.
- Each agent's noise secret is drawn from the operating system; only a simulation takes it from the seed.
- What the manifest says is public. The digest of the data is not (it would confirm a guess of a missing record): it
  stays in ``dealt.json``, mode 0600.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import secrets
import shutil
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from coordinator_free.agents.registry import algorithm, make
from coordinator_free.clocks import own_rate, own_skew
from coordinator_free.privacy.families import NORMS
from coordinator_free.privacy.ledger import Budget, LedgerError
from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.noise import simulation_secret
from coordinator_free.problem.losses import LossError, loss
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray
from node.configuration.events import check_names
from node.configuration.public import dump, public_digest
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import Configuration
from node.faults.joins_and_leaves import Membership, membership
from node.folder.build import build
from node.folder.keys import make_keys
from node.folder.ledger import LedgerFile
from node.folder.manifest import Manifest, Metric, Seeds
from node.folder.public import NetworkNumbers, PublicNumbers
from node.folder.shard import Rows, setting, write_shard
from node.folder.whole import write_new, write_whole
from node.places import agent_folder, shard_path
from node.plug_ins import find_here

if TYPE_CHECKING:
    from node.data import Dealt
    from topology.network import Network

SMALLEST_CONFIDENCE = 1e-3
"""Of an agent without data, which learns from its neighbours alone."""


@dataclass(frozen=True)
class Preparation:
    """What a run starts from, before anything is written: data, graph, and each agent's public numbers.

    ``confidences`` (n,), ``smoothness`` (n,) of L_i (empty if no step rests on it), ``regularisations`` (n,) lambda_i,
    ``multipliers`` (releases,).
    """

    configuration: Configuration
    dealt: Dealt
    network: Network
    seed: int
    confidences: FloatArray
    regularisations: FloatArray
    smoothness: FloatArray
    multipliers: FloatArray
    warnings: tuple[str, ...]
    arrangement: Mapping[str, Any] = field(default_factory=dict)
    """What an algorithm says that depends on the whole graph and all sizes: see `arrangement`."""
    own_budgets: tuple[tuple[float, float], ...] = ()
    """(epsilon, delta) of each agent, where they have their own; epsilon 0: it opts out."""
    membership: Membership = field(default_factory=Membership)
    """Who joins and who leaves."""

    @property
    def agents(self) -> int:
        return self.network.agents

    def budget(self, agent: int) -> tuple[float, float] | None:
        """(epsilon, delta) of one agent, epsilon 0 if it only listens; None without a mechanism."""
        privacy = self.configuration.privacy
        if not self.configuration.private:
            return None
        return self.own_budgets[agent] if self.own_budgets else (privacy.epsilon or 0.0, privacy.delta or 0.0)

    @cached_property
    def _bought(self) -> dict[tuple[float, float], FloatArray]:
        """The multipliers that each agent's own budget buys."""
        return {
            own: multipliers(_with_budget(self.configuration, own), self.dealt.dimension) if own[0] > 0 else np.empty(0)
            for own in set(self.own_budgets)
        }

    def public(self, agent: int) -> PublicNumbers:
        """The public numbers of one agent, without those of one run (its id and digests)."""
        c, rows, budget = self.configuration, self.dealt.shards[agent], self.budget(agent)
        bought = self._bought[budget] if budget is not None and self.own_budgets else self.multipliers
        learning = {**c.learning.given(), "agents": self.agents, "seed": self.seed}
        if self.smoothness.size:
            learning["smoothness"] = float(self.smoothness[agent])
        learning.update(self.arrangement.get("learning", {}))
        neighbours = self.network.neighbours(agent)
        learning.update(self.membership.learning(agent, neighbours))
        return PublicNumbers(
            agent=agent,
            agents=self.agents,
            name=self.dealt.names[agent],
            neighbours=tuple(int(j) for j in neighbours),
            membership=self.membership.around(agent, neighbours),
            weights=tuple(float(w) for w in self.network.weights_of(agent)),
            confidence=float(self.confidences[agent]),
            dimension=self.dealt.dimension,
            records=len(rows.y),
            test_records=len(rows.y_test),
            algorithm=c.learning.algorithm,
            loss=c.learning.loss,
            regularisation=float(self.regularisations[agent]),
            learning=learning,
            updates=c.clock.updates if budget is None or budget[0] > 0 else 0,
            releases=self.arrangement.get("releases") or releases(c, len(neighbours)),
            release_dimension=self.arrangement.get("release_dimension") or release_dimension(c, self.dealt.dimension),
            rate=own_rate(c.clock.rate, c.clock.drift, self.seed, agent),
            skew=own_skew(c.clock.skew, self.seed, agent),
            seed=self.seed,
            mechanism=c.privacy.mechanism,
            multipliers=tuple(float(m) for m in bought),
            clip=c.privacy.clip,
            budget=budget,
            record=self.dealt.record,
            metric=loss(c.learning.loss).metric,
            simulation=c.run.simulation,
            network=NetworkNumbers.from_json(
                {
                    **c.network.model_dump(exclude={"folder"}, by_alias=True),
                    "eavesdropper": c.eavesdropper.enabled,
                    "encryption": c.encrypted,
                }
            ),
        )

    def rows(self, agent: int) -> Rows:
        shard = self.dealt.shards[agent]
        return Rows(shard.x, shard.y, shard.x_test, shard.y_test)

    def problems(self) -> list[LocalProblem]:
        """Every agent's local problem, in agent order."""
        return [
            _problem(self.configuration, shard.x, shard.y, float(lambda_i))
            for shard, lambda_i in zip(self.dealt.shards, self.regularisations, strict=True)
        ]


# --- preparing: no files are written ---------------------------------------------------------------------------------


def prepare(configuration: Configuration, seed: int | None = None, dealt: Dealt | None = None) -> Preparation:
    """Load the data, build the graph, calibrate the noise.

    ``seed`` deals rows, graph and clocks where the configuration has none; None draws it. ``dealt`` stands for the
    data where they were dealt already. Raises `ConfigurationError` or another ValueError of one line.
    """
    if configuration.run.seed is not None:
        seed = configuration.run.seed
    elif seed is None:
        seed = secrets.randbits(63)
    if dealt is None:
        dealt = deal_data(configuration, seed)
    graph = network(configuration, dealt, seed)
    _check_links(configuration, graph)
    check_names(configuration.event, dealt.names)
    records = np.array([len(shard.y) for shard in dealt.shards])
    regularisations = configuration.learning.regularisation / np.maximum(records, 1)
    problems = [
        _problem(configuration, shard.x, shard.y, float(lambda_i))
        for shard, lambda_i in zip(dealt.shards, regularisations, strict=True)
    ]
    own = _own_budgets(configuration, dealt, seed)
    stepped = algorithm(configuration.learning.algorithm).uses_smoothness
    return Preparation(
        configuration=configuration,
        own_budgets=own,
        dealt=dealt,
        network=graph,
        seed=seed,
        confidences=confidences(records),
        regularisations=regularisations,
        smoothness=np.array([smoothness(configuration, dealt, problem) for problem in problems] if stepped else []),
        multipliers=multipliers(configuration, dealt.dimension),
        warnings=(*_warnings(configuration, records, own), *foreseen(configuration, graph)),
        membership=membership(configuration.event, dealt.names, seed),
        arrangement=arrangement(configuration, graph, [int(m) for m in records], dealt),
    )


def _with_budget(configuration: Configuration, own: tuple[float, float]) -> Configuration:
    privacy = configuration.privacy.model_copy(update={"epsilon": own[0], "delta": own[1] or None})
    return configuration.model_copy(update={"privacy": privacy})


def _own_budgets(configuration: Configuration, dealt: Dealt, seed: int) -> tuple[tuple[float, float], ...]:
    """(epsilon, delta) of each agent, where they have their own; else empty."""
    privacy, names = configuration.privacy, list(dealt.names)
    if privacy.budgets is None and privacy.levels is None:
        return ()
    from coordinator_free.agent import Activation
    from node.dealing.budgets import dealt_by_levels, from_file

    delta = privacy.delta or 0.0
    if privacy.budgets is not None:
        own = from_file(Path(privacy.budgets), names, (privacy.epsilon or 0.0, delta))
    else:
        levels = [(share, epsilon) for share, epsilon in privacy.levels or []]
        own = dealt_by_levels(len(names), levels, delta, seed)
    silent = [i for i, (epsilon, _) in enumerate(own) if epsilon == 0]
    if silent and algorithm(configuration.learning.algorithm).activation is Activation.ROUNDS:
        raise ConfigurationError(
            f'learning.algorithm = "{configuration.learning.algorithm}": {_named(np.array(silent))} would opt out '
            "(epsilon 0) and everybody wait for it in every round; use an asynchronous algorithm"
        )
    return tuple(own)


def deal_data(configuration: Configuration, seed: int) -> Dealt:
    """The rows of every agent."""
    from node.data import deal

    return deal(
        configuration.data,
        seed=seed,
        private=configuration.private,
        norm=NORMS.get(configuration.privacy.mechanism),
    )


def network(configuration: Configuration, dealt: Dealt | None = None, seed: int | None = None) -> Network:
    """The graph that the configuration describes; data are dealt only if they were not given.

    ``seed`` is used where neither the topology nor the run has one; without any, one is drawn.
    """
    from topology import families, files, similarity

    if seed is None:
        seed = configuration.run.seed if configuration.run.seed is not None else secrets.randbits(63)
    if dealt is None:
        dealt = deal_data(configuration, seed)
    section = configuration.topology
    agents = len(dealt.shards)
    if section.kind == "file":
        path = Path(str(section.path))
        try:
            graph = files.parse(path.read_bytes(), path.suffix.removeprefix("."))
        except OSError as error:
            raise ConfigurationError(f'topology.path = "{path}": {error.strerror}; give a graph file') from None
    elif section.kind in {"angle-similarity", "nearest-neighbours"}:
        if dealt.similarity is None:
            raise ConfigurationError(
                f'topology.kind = "{section.kind}": data.source "{configuration.data.source}" has nothing to compare '
                "agents by; use a family such as random-regular"
            )
        if section.kind == "angle-similarity":
            graph = similarity.angle_similarity(
                dealt.similarity,
                0.1 if section.gamma is None else section.gamma,
                1e-3 if section.threshold is None else section.threshold,
            )
        else:
            graph = similarity.nearest_neighbours(dealt.similarity, section.neighbours or 10)
    else:
        parameters = section.model_dump(exclude={"kind", "path", "seed"}, exclude_none=True)
        graph = families.build(section.kind, agents, seed if section.seed is None else section.seed, **parameters)
    if graph.agents != agents:
        raise ConfigurationError(
            f'topology.kind = "{section.kind}": the graph has {graph.agents} agents, the data {agents}'
        )
    return graph


def _check_links(configuration: Configuration, graph: Network) -> None:
    """Raise a one-line error for conditions of a link that the graph does not have."""
    for number, link in enumerate(configuration.network.link):
        for key, agent in (("from", link.sender), ("to", link.receiver)):
            if agent >= graph.agents:
                raise ConfigurationError(
                    f"network.link.{number}.{key} = {agent}: should be an agent, 0 to {graph.agents - 1}"
                )
        if link.receiver not in graph.neighbours(link.sender):
            raise ConfigurationError(
                f"network.link.{number}.to = {link.receiver}: should be a neighbour of agent {link.sender}, one of "
                f"{', '.join(map(str, graph.neighbours(link.sender)))}"
            )


def confidences(records: Sequence[int] | FloatArray) -> FloatArray:
    """c_i = m_i / max_j m_j (Bellet et al. 2018, section 2.2); small and positive without data. Sizes are public."""
    sizes = np.asarray(records, dtype=np.float64)
    return np.maximum(sizes / max(float(sizes.max()), 1.0), SMALLEST_CONFIDENCE)


def smoothness(configuration: Configuration, dealt: Dealt, problem: LocalProblem) -> float:
    """The smoothness of L_i that sets the step; a public number in a private run."""
    kind = configuration.learning.smoothness
    if kind == "data":
        return problem.smoothness_of_data()
    if kind == "bound":
        if "l2" not in dealt.row_bounds:
            raise ConfigurationError(
                'learning.smoothness = "bound": nothing public bounds the rows; scale them by public bounds, state '
                "data.row_bound, or give a public number"
            )
        return problem.smoothness_bound(dealt.row_bounds["l2"])
    if kind == "feature-law":
        if dealt.feature_law is None:
            raise ConfigurationError(
                f'learning.smoothness = "feature-law": data.source "{configuration.data.source}" has no public feature '
                'law; use "bound" or a public number'
            )
        return problem.loss.curvature_bound * dealt.feature_law(problem.records) + 2.0 * problem.regularisation
    assert isinstance(kind, float)
    return kind + 2.0 * problem.regularisation


def releases(configuration: Configuration, neighbours: int) -> int:
    """How many releases an agent makes: one for each update or round, unless its algorithm says otherwise."""
    return algorithm(configuration.learning.algorithm).releases(configuration.clock.updates, neighbours)


def release_dimension(configuration: Configuration, dimension: int) -> int:
    """The length of a release's vector: the model's, unless the algorithm says otherwise."""
    return algorithm(configuration.learning.algorithm).release_dimension(dimension)


def arrangement(configuration: Configuration, graph: Network, sizes: Sequence[int], dealt: Dealt) -> Mapping[str, Any]:
    """``releases``, ``release_dimension`` and more ``learning`` parameters that rest on the whole graph and all sizes.

    See `Algorithm.arranged`. Among the learning parameters that it is given is what is publicly known of mean(x x^T),
    "second_moment", if anything is.
    """
    chosen = algorithm(configuration.learning.algorithm)
    privacy = {key: getattr(configuration.privacy, key) for key in ("observer", "colluders", "dropouts")}
    learning = configuration.learning.given() | privacy
    if dealt.second_moment is not None:
        learning["second_moment"] = dealt.second_moment.tolist()
    arranged = chosen.arranged(graph, sizes, dealt.dimension, configuration.clock.updates, learning)
    return {**arranged, "learning": arranged["learning"] | privacy} if arranged else {}


def multipliers(configuration: Configuration, dimension: int) -> FloatArray:
    """One noise scale for each charged release, in units of its sensitivity; empty without a mechanism."""
    privacy = configuration.privacy
    if not configuration.private:
        return np.empty(0)
    from coordinator_free.privacy.accounting import calibrate

    assert privacy.epsilon is not None
    chosen = algorithm(configuration.learning.algorithm)
    bought = chosen.calibrate(
        privacy.mechanism,
        configuration.clock.updates,
        privacy.epsilon,
        privacy.delta or 0.0,
        {**configuration.learning.given(), "clip": privacy.clip},
        dimension,
    )
    if bought is not None:
        return bought
    return calibrate(
        privacy.mechanism,
        chosen.charged(configuration.clock.updates),
        privacy.epsilon,
        privacy.delta or 0.0,
        privacy.allocation,
        r=privacy.r,
        dimension=chosen.release_dimension(dimension),
    )


def foreseen(configuration: Configuration, graph: Network) -> tuple[str, ...]:
    """What the algorithm's theory warns of."""
    chosen = algorithm(configuration.learning.algorithm)
    return chosen.foresee(configuration.learning.given(), configuration.clock.updates, graph)


def _problem(configuration: Configuration, x: FloatArray, y: FloatArray, regularisation: float) -> LocalProblem:
    try:
        return LocalProblem(x, y, loss(configuration.learning.loss), regularisation)
    except LossError as error:
        raise ConfigurationError(f'learning.loss = "{configuration.learning.loss}": {error}') from None


def _warnings(configuration: Configuration, records: FloatArray, own: Sequence[tuple[float, float]] = ()) -> list[str]:
    found = []
    empty = np.flatnonzero(records == 0)
    if empty.size:
        found.append(
            f"{_named(empty)} without data: confidence {SMALLEST_CONFIDENCE:g}, it learns from its neighbours alone"
        )
    silent = np.array([i for i, (epsilon, _) in enumerate(own) if epsilon == 0], dtype=np.int64)
    if silent.size:
        found.append(f"{_named(silent)} with epsilon 0: no release, it listens and learns for itself alone")
    delta = max((delta for _, delta in own), default=0.0) or configuration.privacy.delta
    if configuration.private and delta is not None:
        exposed = np.flatnonzero((records > 0) & (delta * records >= 1))
        if exposed.size:
            found.append(
                f"privacy.delta = {delta:g} is at least 1/m_i for {_named(exposed)}: such a delta permits publishing a "
                "whole record; use a smaller one"
            )
    if configuration.private and configuration.privacy.observer == "as_published" and (records > 0).any():
        from coordinator_free.privacy.observer import truth

        true = truth(configuration.privacy.epsilon or 0.0, configuration.privacy.delta or 0.0, records.tolist())
        found.append(
            f'privacy.observer = "as_published": the claimed epsilon {true.claimed:g} is false; it is '
            f"{true.releases:.3g} for who sees each agent's releases, and {true.sum:.3g} for who sees only their sum"
        )
    if configuration.run.simulation:
        found.append("run.simulation = true: whoever holds run.seed sees through the noise")
    return found


def _named(agents: npt.NDArray[np.int64], most: int = 10) -> str:
    listed = ", ".join(str(int(agent)) for agent in agents[:most])
    more = f" and {agents.size - most} more" if agents.size > most else ""
    return f"agent{'s' if agents.size > 1 else ''} {listed}{more}"


# --- writing ---------------------------------------------------------------------------------------------------------


def deal_run(configuration: Configuration, folder: Path, *, force: bool = False) -> Manifest:
    """Deal ``configuration`` into the run folder ``folder``; returns its manifest.

    Raises `ConfigurationError` or another ValueError of one line; an existing folder is one, unless ``force``.
    """
    folder = folder.absolute()
    if folder.exists() and not force:
        raise ConfigurationError(
            f"run folder {folder} exists: choose another --out or run.name, or --force to replace it"
        )
    preparation = prepare(configuration)
    for ledger in folder.glob("agents/agent-*/ledger.jsonl"):
        if int(ledger.parent.name.removeprefix("agent-")) >= preparation.agents:
            raise ConfigurationError(
                f"--force: {ledger} is of an agent that the new run does not have, and ledgers are never deleted; "
                "choose another --out or run.name"
            )
    folder.parent.mkdir(parents=True, exist_ok=True)
    building = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.partial"
    building.mkdir(mode=0o755)
    try:
        manifest = _write(preparation, building, folder)
        if folder.exists():
            _replace(folder, building)
        else:
            building.rename(folder)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return manifest


def _write(preparation: Preparation, building: Path, folder: Path) -> Manifest:
    from node.folder.earlier_runs import earlier_runs
    from topology import files

    c, dealt, graph = preparation.configuration, preparation.dealt, preparation.network
    run = secrets.token_hex(16)
    digest = public_digest(c, graph.digest()).hex()
    judge = loss(c.learning.loss)
    earlier = earlier_runs(folder, dealt.digest)
    write_whole(building / "config.toml", dump(c).encode(), 0o644)
    write_whole(building / "topology.graphml", files.write(graph, "graphml"), 0o644)
    (building / "shards").mkdir(mode=0o700)
    (building / "agents").mkdir(mode=0o700)
    (building / "endpoints").mkdir(mode=0o755)
    indices: list[int] = []
    for agent in range(preparation.agents):
        # Who opts out has room in its ledger for runs to come, and is charged nothing now.
        epsilon, delta = preparation.budget(agent) or (0.0, 0.0)
        budget = Budget(epsilon or float(c.privacy.epsilon or 0.0), delta) if c.private else None
        rows = preparation.rows(agent)
        shard_digest = rows.digest()
        public = replace(
            preparation.public(agent), run=bytes.fromhex(run), digest=bytes.fromhex(digest), shard_digest=shard_digest
        )
        write_shard(shard_path(building, agent), rows, public)
        indices.append(public.releases)
        place = agent_folder(building, agent)
        place.mkdir(mode=0o700)
        secret = _secret(c, agent)
        write_new(place / "secret", secret)
        speaker = make(c.learning.algorithm, setting(rows, public, secret))
        plan = [speaker.charge(index) for index in range(public.releases)]
        kept = agent_folder(folder, agent) / "ledger.jsonl"
        if kept.exists():
            _check_room(kept, shard_digest, budget, run, plan)
        else:
            LedgerFile.create(place / "ledger.jsonl", shard_digest, dealt.record, budget, plan)
    if c.encrypted:
        make_keys(building, [*range(preparation.agents), *([None] if c.eavesdropper.enabled else [])])
    write_new(
        building / "dealt.json", json.dumps({"data_digest": dealt.digest, "earlier_runs": earlier}, indent=1).encode()
    )
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
        public_assumptions=tuple(dealt.public_assumptions),
        warnings=tuple(preparation.warnings),
        build=build(),
    )
    write_whole(building / "manifest.json", (json.dumps(manifest.to_json(), indent=1) + "\n").encode(), 0o644)
    return manifest


def _check_room(
    ledger: Path, shard_digest: str, budget: Budget | None, run: str, plan: Sequence[Mechanism | None]
) -> None:
    """Raise a one-line error unless an old ledger is of the same rows and is free, and has room for the new run."""
    try:
        with LedgerFile.open(ledger, shard_digest) as held:
            if (held.budget is None) != (budget is None):
                # With a budget, a release without a mechanism would pass as one that holds nothing of the data.
                raise LedgerError(
                    f"ledger {ledger} is of a run {'without' if held.budget is None else 'with'} a budget"
                )
            held.admit(run, plan)
    except LedgerError as error:
        raise ConfigurationError(
            f"--force: {error}; ledgers are never deleted: choose another --out or run.name"
        ) from None


def _replace(folder: Path, building: Path) -> None:
    """Put a newly dealt run in the place of an old one; ledgers that are there stay, untouched.

    The manifest goes first and comes last, so that a folder in between is never taken for a run.
    """
    kept = set(folder.glob("agents/agent-*/ledger.jsonl"))
    (folder / "manifest.json").unlink(missing_ok=True)
    for path in sorted(folder.rglob("*"), reverse=True):
        if path in kept:
            continue
        if not path.is_dir() or path.is_symlink():
            path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()
    for path in sorted(building.rglob("*")):
        target = folder / path.relative_to(building)
        if path.is_dir():
            target.mkdir(mode=path.stat().st_mode & 0o777, exist_ok=True)
        elif path.name != "manifest.json":
            path.rename(target)
    (building / "manifest.json").rename(folder / "manifest.json")


def _secret(configuration: Configuration, agent: int) -> bytes:
    if configuration.run.simulation:
        assert configuration.run.seed is not None
        return simulation_secret(configuration.run.seed, agent)
    return os.urandom(32)


def _seeds(preparation: Preparation) -> Seeds:
    simulated = preparation.configuration.run.simulation
    return Seeds(
        seed=preparation.seed,
        drawn=preparation.configuration.run.seed is None,
        seeds=("splits", "graph", "clocks", "network conditions", *(["noise"] if simulated else [])),
        noise="from run.seed: a simulation" if simulated else "each agent's own secret, from the operating system",
    )


# --- a process of its own --------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """``python -m node.dealing.folder FOLDER [--force]``: the configuration on standard input, the manifest on output.

    Exit status 2 with one line on standard error for bad input.
    """
    parser = argparse.ArgumentParser(prog="python -m node.dealing.folder")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--force", action="store_true")
    options = parser.parse_args(arguments)
    find_here()
    try:
        manifest = deal_run(from_table(tomllib.loads(sys.stdin.read())), options.folder, force=options.force)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"run folder {options.folder}: {error.strerror}: {error.filename or options.folder}", file=sys.stderr)
        return 2
    print(json.dumps(manifest.to_json()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
