"""The learned graph's part of an audit and of a re-execution: its profiles, their charges, their noise, and the graph.

Rules that hold here:
- A re-execution makes each profile again from the agent's records and secret. An audit has no secret: it tests the
  noise, which an observer of every record recovers.
- A run whose graph is given has none of this, and nothing to find.
"""

from __future__ import annotations

from coordinator_free.agents.personal.profile import Profile
from coordinator_free.attacks import noise_tests
from coordinator_free.attacks.noise_tests import NoiseRow
from coordinator_free.privacy.ledger import Charge, LedgerError
from coordinator_free.privacy.mechanism import GRID
from coordinator_free.release import FloatArray
from node.audit.evidence import Evidence
from node.audit.report import Part
from node.folder.build import same_build
from node.folder.ledger import LedgerFile
from node.folder.manifest import RunFolderError
from node.folder.profiles import charged_as, is_learned, learned_graph, profile_of, read_profiles
from node.folder.run import RunFolder
from node.folder.shard import read_secret
from node.places import agent_folder


def learned_graph_of(evidence: Evidence) -> Part[None]:
    """Whether each profile was charged what it costs and has the noise that was charged, and makes the graph."""
    run = evidence.run
    if not is_learned(run.configuration):
        return Part(None)
    try:
        vectors = _profiles(run)
    except RunFolderError as error:
        return Part(None, (str(error),))
    findings, rows = [], []
    for agent in range(run.agents):
        profile = _profile(run, agent, bytes(32))
        due = None if profile is None else profile.charge
        findings += _charged(run, agent, due)
        if profile is None or due is None:
            if vectors[agent].any():
                findings.append(f"agent {agent}: it has nothing to release, and a profile that is not zero")
            continue
        if ":" not in due.name:  # only its class knows the law of a mechanism of the user's own
            rows.append(NoiseRow(agent, 0, vectors[agent] - GRID * (profile.exact() / GRID).round(), due))
    findings += [f"profiles: {line}" for line in noise_tests.examine(rows).findings]
    return Part(None, (*findings, *_graph(run, vectors)))


def remade(run: RunFolder) -> list[str]:
    """The profiles that the agents' code, records and secrets do not make, and a graph that profiles do not make."""
    if not is_learned(run.configuration):
        return []
    vectors = _profiles(run)
    allowed = 0.0 if same_build(run.manifest.build) else 1.5 * GRID
    findings = []
    for agent in range(run.agents):
        profile = _profile(run, agent, read_secret(agent_folder(run.folder, agent) / "secret"))
        difference = vectors[agent] if profile is None else vectors[agent] - profile.vector()
        largest = float(abs(difference).max())
        if largest > allowed:
            findings.append(f"agent {agent}: its profile differs by up to {largest:.3g} from what its code makes")
    return findings + _graph(run, vectors)


def _profiles(run: RunFolder) -> FloatArray:
    return read_profiles(run.folder, run.agents, run.manifest.dimension)


def _profile(run: RunFolder, agent: int, secret: bytes) -> Profile | None:
    public = run.public[agent]
    budget = public.budget or (0.0, 0.0)
    return profile_of(run.configuration, run.problems[agent], budget, (public.clip, public.row_bound), secret)


def _charged(run: RunFolder, agent: int, due: object) -> list[str]:
    """What is wrong with the charge of one agent's profile."""
    try:
        with LedgerFile.read(agent_folder(run.folder, agent) / "ledger.jsonl", None) as ledger:
            own = charged_as(run.run.hex())
            charges: list[Charge] = [charge for charge in ledger.charges() if charge.run == own]
    except LedgerError:
        return []  # the ledgers' own part names it
    found = [charge.mechanism for charge in charges for _ in range(charge.count)]
    if due is None or found == [due]:
        return []
    return [f"agent {agent}: its profile was not charged" if not found else f"agent {agent}: its profile costs {due}"]


def _graph(run: RunFolder, vectors: FloatArray) -> list[str]:
    """On another build rounding may order two equally similar agents differently: nothing is compared there."""
    if not same_build(run.manifest.build):
        return []
    made = learned_graph(vectors, run.configuration)
    return [] if made.digest() == run.network.digest() else ["the graph is not the one that the profiles make"]
