"""The evidence of an audit: what was recorded of each agent, what its ledger charged, and the attacker of the run.

Rules that hold here:
- Nothing is judged here but the ledgers' files: one that is missing, damaged or of other data is a finding, and
  charges nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator_free.agents.registry import algorithm
from coordinator_free.algorithm import Algorithm
from coordinator_free.attacks.attacker import Attacker, Observed
from coordinator_free.attacks.charges import Account, Charge
from coordinator_free.attacks.families import attacker
from coordinator_free.privacy.ledger import LedgerError
from node.audit.recording import Recording
from node.folder.ledger import LedgerFile
from node.folder.run import RunFolder
from node.folder.shard import setting
from node.places import agent_folder

CERTAIN = 1e-3
"""A correct run has a finding of a statistical kind at most this often, for each kind."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """A recorded run as its auditor knows it. ``unreadable``: findings about ledgers that cannot be used."""

    recording: Recording
    agents: tuple[Observed, ...]
    attacker: Attacker
    delta: float
    unreadable: tuple[str, ...]

    @property
    def run(self) -> RunFolder:
        """The run's folder."""
        return self.recording.run

    def records(self, agent: int) -> int:
        """How many records an agent holds."""
        return self.agents[agent].setting.problem.records


def gather(recording: Recording, secret: bytes) -> Evidence:
    """Read every agent's ledger, and choose the attacker; ``secret`` is the audit's own, 16 bytes or more."""
    run = recording.run
    make = algorithm(run.manifest.algorithm)
    unreadable: list[str] = []
    agents = tuple(
        Observed(
            make,
            # An observer has no secret; agents refuse to be made without one.
            setting(run.rows[agent], run.public[agent], bytes(32)),
            recording.of(agent),
            recording.heard,
            _account(run, agent, make, unreadable),
        )
        for agent in range(run.agents)
    )
    delta = run.configuration.privacy.delta or 0.0
    return Evidence(recording, agents, attacker(agents, secret), delta, tuple(unreadable))


def _account(run: RunFolder, agent: int, make: type[Algorithm], unreadable: list[str]) -> Account:
    path = agent_folder(run.folder, agent) / "ledger.jsonl"
    try:
        with LedgerFile.read(path, run.rows[agent].digest()) as ledger:
            mine = run.run.hex()
            charges = [charge for charge in ledger.charges() if charge.run == mine]
            earlier = ledger.ledger.used(charge for charge in ledger.charges() if charge.run != mine)
            budget = None if ledger.budget is None else (ledger.budget.epsilon, ledger.budget.delta)
    except LedgerError as error:
        unreadable.append(f"agent {agent}: {error}")
        return Account([])
    return Account(
        [Charge(charge.first, charge.last, charge.mechanism) for charge in charges],
        earlier,
        budget,
        # What the configuration says, and not what the ledger says of itself.
        make(setting(run.rows[agent], run.public[agent], bytes(32))).windows,  # type: ignore[call-arg]
    )
