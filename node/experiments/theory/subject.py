"""What a theorem can speak about: a configuration with its dealt data, or a run with its releases too.

Rules that hold here:
- A configuration and a run offer the same numbers; a run has releases and results besides.
- All records are read, as by the process that deals them. What is computed from them is not covered by epsilon.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator_free.agent import Setting
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import Release
from node.configuration.sections import Configuration
from node.folder.public import PublicNumbers
from node.folder.shard import Rows, setting
from topology.network import Network

if TYPE_CHECKING:
    from node.dealing.preparation import Preparation
    from node.folder.run import RunFolder


@dataclass(frozen=True, eq=False)
class Subject:
    """A configuration with its dealt data; for a run, also what was released and what came of it.

    ``path`` is the configuration's file or the run's folder. Exactly one of ``preparation`` and ``run`` is given.
    """

    path: Path
    configuration: Configuration
    network: Network
    preparation: Preparation | None = None
    run: RunFolder | None = None
    played: tuple[Release, ...] = ()
    """What a prepared configuration released, where it was played without a folder."""

    @property
    def agents(self) -> int:
        """The number of agents."""
        return self.network.agents

    @cached_property
    def rows(self) -> tuple[Rows, ...]:
        """The training and test rows of each agent."""
        if self.run is not None:
            return self.run.rows
        return tuple(self._prepared.rows(agent) for agent in range(self.agents))

    @cached_property
    def public(self) -> tuple[PublicNumbers, ...]:
        """The public numbers of each agent. The noise that a budget buys is among them, so this can take seconds."""
        if self.run is not None:
            return self.run.public
        return tuple(self._prepared.public(agent) for agent in range(self.agents))

    @cached_property
    def problems(self) -> tuple[LocalProblem, ...]:
        """The local problem of each agent."""
        return self.run.problems if self.run is not None else tuple(self._prepared.problems())

    @property
    def records(self) -> tuple[int, ...]:
        """The number of training records of each agent."""
        return tuple(len(rows.y) for rows in self.rows)

    def setting(self, agent: int) -> Setting:
        """What an agent's code is made from. Its secret is zero: it serves for charges, not for noise."""
        return setting(self.rows[agent], self.public[agent], bytes(32))

    @cached_property
    def releases(self) -> tuple[Release, ...]:
        """What a run released, in order of arrival; empty for a configuration."""
        from node.traffic.run_logs import releases_of

        return (
            self.played if self.run is None else tuple(release for _, release in releases_of(self.run.folder).values())
        )

    @property
    def _prepared(self) -> Preparation:
        assert self.preparation is not None
        return self.preparation


def subject(path: Path, overrides: tuple[str, ...] = ()) -> Subject:
    """The configuration file or the run's folder at ``path``; ``overrides`` are for a configuration alone."""
    from node.configuration.reading import load

    if not path.is_dir():
        from node.dealing.preparation import prepare
        from node.folder.profiles import is_learned

        configuration = load(path, overrides)
        if is_learned(configuration):
            raise ValueError(
                f'{path}: topology.kind = "private-similarity" has no graph before a run is dealt; give the folder of '
                "a run"
            )
        prepared = prepare(configuration)
        return Subject(path, prepared.configuration, prepared.network, preparation=prepared)
    if overrides:
        raise ValueError(f"--set {overrides[0]}: {path} is a run, whose settings are fixed; give a CONFIG.toml")
    from node.folder.run import read_run

    run = read_run(path)
    return Subject(path, run.configuration, run.network, run=run)
