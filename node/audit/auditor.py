"""The audit of a run: what its ledgers say it cost, beside what the best known attacks on its very traffic achieve.

Rules that hold here:
- The auditor plays the strongest observer: it knows every record, every shard's public numbers, and all that was heard.
- Each part is a function of a recording; a part that could not be done says so and is never taken for a success.
- A finding is a breach. Anything else worth knowing is a note.
- "attacked" is a lower bound at its confidence, "accounted" an upper bound: where the first exceeds the second beyond
  any chance, something is broken, and that is a finding.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.admm.admm import Admm
from coordinator_free.agents.admm.dual_perturbation import DualPerturbation
from coordinator_free.agents.averages.aggregating import Aggregating
from coordinator_free.agents.averages.averaging import Averaging, Descent
from coordinator_free.agents.personal.anchors import Anchor
from coordinator_free.agents.personal.propagation import Propagation
from coordinator_free.agents.registry import algorithm
from coordinator_free.algorithm import Algorithm
from coordinator_free.attacks import (
    local_descent,
    masked_sums,
    membership,
    noise_tests,
    observed_rounds,
    perturbed_objectives,
    reconstruction,
    side_channels,
)
from coordinator_free.attacks.bounds import Bound, attacked, expected
from coordinator_free.attacks.charges import Account, Charge, check_charges
from coordinator_free.attacks.inversion import InversionError, Inverted, NotPerturbed, invert, noised_part
from coordinator_free.attacks.likelihood_ratio import Environment, FreshNoise, attack_scores, environment
from coordinator_free.attacks.recorded_states import Shifts, candidates, shift_scores, shifts
from coordinator_free.attacks.worst_case import sampled_states, worst_alternative
from coordinator_free.privacy.accounting import Total, total
from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from coordinator_free.privacy.ledger import LedgerError
from coordinator_free.privacy.mechanisms import Gaussian, Mechanism
from coordinator_free.release import FloatArray
from node.audit.recording import Recording, read_recording
from node.folder.ledger import LedgerFile
from node.folder.shard import setting
from node.places import agent_folder

MOST_AGENTS = 100
"""Up to this many agents all are attacked unless some are named; of more, `SAMPLE`."""
SAMPLE = 20
TRIALS = 1199
"""Fresh local descents that a release's noise is compared with."""
_CERTAIN = 1e-3
"""A correct run has a finding "attacked exceeds accounted" at most this often."""
_VECTORISED = "coordinate-descent"
_RUNS = 16
"""Fresh runs along which the worst replacement is sought."""


class AuditError(ValueError):
    """An option that the run does not allow; one line."""


@dataclass(frozen=True)
class AgentAudit:
    """One agent: ``budget`` and ``accounted`` (None where nothing is private), ``attacked`` (None if it was not).

    ``attained``: the share of the charged sensitivity that the worst replacement uses; ``why``: what keeps attacked
    below accounted, or why there is none.
    """

    agent: int
    budget: float | None
    accounted: float | None
    attacked: float | None
    trials: int
    confidence: float
    accountant: str | None = None
    record: int | None = None
    attained: float | None = None
    ceiling: float | None = None
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "budget": self.budget,
            "accounted": _finite(self.accounted),
            "attacked": _finite(self.attacked),
            "trials": self.trials,
            "confidence": self.confidence,
        }


@dataclass
class Audit:
    """All parts of an audit; ``findings`` are breaches, ``notes`` are not."""

    name: str
    record: str
    delta: float
    capture: dict[str, Any]
    ledger: dict[str, Any]
    noise: dict[str, Any]
    agents: list[AgentAudit]
    findings: list[str]
    notes: list[str]
    others: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.findings

    def as_json(self) -> dict[str, Any]:
        """What ``--json`` prints."""
        return {
            "capture": self.capture,
            "ledger": self.ledger,
            "noise": self.noise,
            "agents": [agent.as_json() for agent in self.agents],
            "findings": self.findings,
            "ok": self.ok,
        }

    def details(self) -> dict[str, Any]:
        """Everything, for ``audit.json`` in the run's folder."""
        more = [
            {
                "agent": a.agent,
                "accountant": a.accountant,
                "record": a.record,
                "attained": a.attained,
                "ceiling": _finite(a.ceiling),
                "why": a.why,
            }
            for a in self.agents
        ]
        return {**self.as_json(), "delta": self.delta, "notes": self.notes, "attacks": more, **self.others}


def audit(
    folder: Path,
    *,
    trials: int = 1000,
    confidence: float = 0.95,
    agents: Sequence[int] = (),
    record: int | None = None,
    secret: bytes | None = None,
) -> Audit:
    """Audit the run in ``folder``.

    ``trials``: runs on each of both datasets that a bound rests on, and as many again that choose its threshold.
    ``agents``: those to attack (none: all of up to `MOST_AGENTS`). ``record``: the record to replace (None: the worst).
    Raises `AuditError` for options that the run does not allow, and what `read_recording` raises.
    """
    if trials < 2:
        raise AuditError(f"--trials {trials}: at least 2")
    if not 0.5 < confidence < 1.0:
        raise AuditError(f"--confidence {confidence:g}: above 0.5 and below 1")
    recording = read_recording(folder)
    return Auditor(recording, secret or os.urandom(32)).all(trials, confidence, agents, record)


class Auditor:
    """The parts of an audit over one recording."""

    def __init__(self, recording: Recording, secret: bytes) -> None:
        self._recording = recording
        self._secret = secret
        self._run = recording.run
        self._private = recording.run.configuration.private
        self._make = algorithm(str(recording.run.manifest["algorithm"]))
        self._delta = recording.run.configuration.privacy.delta or 0.0
        self._inverted: dict[int, list[Inverted]] = {}
        self.findings: list[str] = []
        self.notes: list[str] = []
        self._accounts = [self._account(agent) for agent in range(self._run.agents)]

    def all(self, trials: int, confidence: float, agents: Sequence[int], record: int | None) -> Audit:
        """Every part, in order."""
        chosen = self._chosen(agents, record)
        capture = self._capture()
        ledger = self.ledger()
        noise = self.noise()
        audited = self.attack(chosen, trials, confidence, record)
        others = {
            "reconstruction": self.reconstruction(chosen),
            "membership": self.membership(),
            "side_channels": self.side_channels(),
            "masked_sums": self.masked_sums(),
        }
        return Audit(
            name=self._run.manifest["name"],
            record=self._run.manifest["record"],
            delta=self._delta,
            capture=capture,
            ledger=ledger,
            noise=noise,
            agents=audited,
            findings=self.findings,
            notes=[*self._run.manifest["warnings"], *self.notes],
            others=others,
        )

    # -- 1: capture -----------------------------------------------------------------------------------------------

    def _capture(self) -> dict[str, Any]:
        capture = self._recording.capture
        if not capture.complete:
            self.notes.append(
                f"the capture is {capture.in_words()}: every figure below is at least (attacked) or at most (accounted)"
            )
        if self._recording.filled:
            self.notes.append(f"{len(self._recording.filled)} releases are known from the agents' journals alone")
        self.notes += [f"the log is damaged: {line}" for line in self._recording.damage]
        return capture.as_results()

    # -- 2: ledger ------------------------------------------------------------------------------------------------

    def ledger(self) -> dict[str, Any]:
        """Releases against ledgers and configuration, and what is wrong with frames by themselves."""
        found = list(self._recording.findings)
        found += [
            f"agent {agent} release {index}: heard with two different bodies, its noise was drawn again"
            for agent, index in self._recording.capture.redrawn
        ]
        found += self._configured()
        charged = sent = 0
        for agent in range(self._run.agents):
            account = self._accounts[agent]
            public = self._run.public[agent]
            code = self._agent(agent)
            expected = {index: code.charge(index) for index in range(public.releases)}
            said = [
                release if expected.get(release.index) is None else replace(release, vector=noised_part(code, release))
                for release in self._recording.said.get(agent, self._recording.of(agent))
            ]
            found += check_charges(agent, said, account, expected)
            charged += sum(charge.last - charge.first + 1 for charge in account.charges)
            sent += len(self._recording.of(agent))
        found = list(dict.fromkeys(found))
        self.findings += found
        failed = len(self.findings)
        return {"ok": not failed, "charged": charged, "heard": sent, "findings": failed}

    def _configured(self) -> list[str]:
        """Public numbers of a private run that were made from private data."""
        if not self._private:
            return []
        found = []
        if self._run.configuration.learning.smoothness == "data":
            found.append(
                "learning.smoothness = data: the step size is computed from the records, outside the accounting"
            )
        for agent in range(self._run.agents):
            problem = self._run.problems[agent]
            public = self._run.public[agent].learning.get("smoothness")
            if public and problem.records and math.isclose(problem.smoothness_of_data(), public, rel_tol=1e-9):
                found.append(f"agent {agent}: its step size is the one that its records give, outside the accounting")
        return found

    def _account(self, agent: int) -> Account:
        """The agent's ledger; one that is missing, damaged or of other data is a finding, and nothing is charged."""
        path = agent_folder(self._run.folder, agent) / "ledger.jsonl"
        try:
            with LedgerFile.read(path, self._run.rows[agent].digest()) as ledger:
                mine = self._run.run.hex()
                charges = [c for c in ledger.charges() if c.run == mine]
                earlier = [c for c in ledger.charges() if c.run != mine]
                budget = None if ledger.budget is None else (ledger.budget.epsilon, ledger.budget.delta)
        except LedgerError as error:
            self.findings.append(f"agent {agent}: {error}")
            return Account([])
        return Account(
            [Charge(c.first, c.last, c.mechanism) for c in charges],
            [c.mechanism for c in earlier for _ in range(c.first, c.last + 1)],
            budget,
        )

    # -- 3: noise -------------------------------------------------------------------------------------------------

    def noise(self) -> dict[str, Any]:
        """Invert every release to its noise, and test that."""
        rows: list[noise_tests.NoiseRow] = []
        not_inverted = []
        local: dict[int, FloatArray] = {}
        for agent in range(self._run.agents):
            if not self._private or self._run.problems[agent].records == 0 or self._masked:
                continue
            try:
                if (descent := self._descent(agent)) is not None:
                    local[agent] = self._distances(agent, descent)
                    continue
                inverted = self.inverted(agent)
            except NotPerturbed:
                try:
                    rows += self._hidden(agent)
                except InversionError as error:
                    not_inverted.append(agent)
                    self.notes.append(f"noise of agent {agent} not tested: {error}")
                continue
            except InversionError as error:
                not_inverted.append(agent)
                self.notes.append(f"noise of agent {agent} not tested: {error}")
                continue
            rows += self._rows(agent, inverted)
        if self._private and self._masked:
            rows += self._noise_of_sums()
        own = {row.agent: row.mechanism.name for row in rows if ":" in row.mechanism.name}
        self.notes += [
            f"noise of mechanism {name} not tested: only its class knows its law" for name in sorted(set(own.values()))
        ]
        not_inverted += sorted(own)
        rows = [row for row in rows if row.agent not in own]
        verdict = noise_tests.examine(rows)
        if local:
            tests = (*verdict.tests, local_descent.law(local))
            verdict = replace(verdict, tests=tests, releases=verdict.releases + len(local))
        self.findings += verdict.findings
        return {
            "ok": verdict.ok,
            "p_value": verdict.p_value,
            "releases": verdict.releases,
            "tests": [{"name": t.name, "p_value": t.p_value, "detail": t.detail} for t in verdict.tests],
            "not_tested": not_inverted,
        }

    def _distances(self, agent: int, descent: Descent) -> FloatArray:
        """How far off the agent's release and fresh ones are. Raises `InversionError`."""
        problem, first = self._run.problems[agent], self._recording.heard.get((agent, 0))
        if first is None:
            raise InversionError(f"release 0 of agent {agent} was not heard")
        if local_descent.affordable(TRIALS, problem.records, problem.dimension, descent.steps) < TRIALS:
            raise InversionError("too many records, features and steps to run a local descent again often enough")
        charged = self._accounts[agent].mechanism(0)
        due = self._agent(agent).charge(0)
        if charged is not None and due is not None:
            descent = replace(descent, deviation=descent.deviation * charged.scale / due.scale)
        noise = FreshNoise(self._secret + b"law" + agent.to_bytes(4, "big"))
        released = noised_part(self._agent(agent), first)
        return local_descent.distances(self._setting(agent), descent, released, TRIALS, noise)

    # Masked sums: whoever listens sees these, and no agent's own vectors.

    @property
    def _masked(self) -> bool:
        learning = self._run.public[0].learning
        return issubclass(self._make, Aggregating) and learning.get("aggregation") == "masked-sum"

    @cached_property
    def _sums(self) -> list[masked_sums.Sum]:
        """Raises `InversionError`."""
        agents = [cast("Aggregating", self._agent(agent)) for agent in range(self._run.agents)]
        return masked_sums.overhear(agents, self._recording.heard)

    def _noise_of_sums(self) -> list[noise_tests.NoiseRow]:
        try:
            heard = [(s, s.law) for s in self._sums]
        except InversionError as error:
            self.notes.append(f"noise of the masked sums not tested: {error}")
            return []
        self.notes.append("the noise tested is that of the masked sums: as agent 0's")
        return [
            noise_tests.NoiseRow(0, s.index, s.noise, law, on_grid=False)
            for s, law in heard
            if isinstance(law, Gaussian)
        ]

    def masked_sums(self) -> dict[str, Any] | None:
        """What can be told of single parties when all masks that were opened are taken off; None for other runs."""
        if not self._masked:
            return None
        try:
            guesses, right, p_value = masked_sums.guessed(self._sums)
        except InversionError:
            return None
        if p_value < _CERTAIN:
            self.findings.append(
                f"masked sums: {right} of {guesses} guesses at signs of the parties' numbers are right "
                f"(p = {p_value:.1e})"
            )
        return {"sums": len(self._sums), "guesses": guesses, "right": right, "p_value": p_value}

    def _hidden(self, agent: int) -> list[noise_tests.NoiseRow]:
        """Noise that is in the objective. Raises `InversionError`."""
        rows = perturbed_objectives.noise_rows(
            agent, self._run.problems[agent], self._capacity(agent), self._rounds(agent)
        )
        account = self._accounts[agent]
        return [replace(row, mechanism=account.mechanism(row.index) or row.mechanism) for row in rows]

    def _rounds(self, agent: int) -> list[perturbed_objectives.Round]:
        """The perturbed objectives of an agent. Raises `InversionError`."""
        if not self._perturbs_objective(agent):
            raise InversionError(f"{self._run.manifest['algorithm']} keeps its noise where the audit cannot see it")
        setting = self._setting(agent)
        if issubclass(self._make, DualPerturbation):
            return perturbed_objectives.observe(self._make, setting, self._recording.of(agent), self._recording.heard)
        curvature, mechanism = Anchor(setting).perturbation()
        code = self._agent(agent)
        first = [replace(r, vector=noised_part(code, r)) for r in self._recording.of(agent) if r.index == 0]
        return [
            perturbed_objectives.Round(release, curvature, np.zeros(setting.dimension), mechanism) for release in first
        ]

    def _perturbs_objective(self, agent: int) -> bool:
        """Whether the agent's noise is in its objective."""
        if issubclass(self._make, DualPerturbation):
            return True
        learning = self._run.public[agent].learning
        one_shot = {Propagation: "anchor", Averaging: "local"}
        names = [learning.get(key) for kind, key in one_shot.items() if issubclass(self._make, kind)]
        return "objective-perturbation" in names

    def _capacity(self, agent: int) -> float:
        """What the mean loss is multiplied with in a perturbed objective."""
        return float(self._run.public[agent].learning.get("capacity", 1.0))

    def inverted(self, agent: int) -> list[Inverted]:
        """The agent's releases with their exact values. Raises `InversionError`."""
        if agent not in self._inverted:
            self._inverted[agent] = invert(self._agent(agent), self._recording.of(agent), self._recording.heard)
        return self._inverted[agent]

    def _rows(self, agent: int, inverted: Sequence[Inverted]) -> list[noise_tests.NoiseRow]:
        rows = []
        before: FloatArray | None = None
        for row in inverted:
            mechanism = self._accounts[agent].mechanism(row.release.index) or row.mechanism
            if row.mechanism is not None and mechanism is not None:
                start = np.zeros_like(row.exact) if before is None or before.shape != row.exact.shape else before
                rows.append(
                    noise_tests.NoiseRow(agent, row.release.index, row.noise, mechanism, drift=row.exact - start)
                )
            before = row.release.vector if row.noised is None else row.noised
        return rows

    # -- 4 and 5: accounted and attacked --------------------------------------------------------------------------

    def attack(self, chosen: Sequence[int], trials: int, confidence: float, record: int | None) -> list[AgentAudit]:
        """Accounted for every agent, attacked for the chosen ones."""
        workers = max(1, min(len(chosen), os.cpu_count() or 1))
        with ThreadPoolExecutor(workers) as pool:
            tried = dict(
                zip(
                    chosen, pool.map(lambda agent: self._attack(agent, trials, confidence, record), chosen), strict=True
                )
            )
        audited = []
        for agent in range(self._run.agents):
            account = self._accounts[agent]
            accounted = self._accounted(agent, account)
            result = AgentAudit(
                agent=agent,
                budget=None if account.budget is None else account.budget[0],
                accounted=None if accounted is None else accounted.epsilon,
                accountant=None if accounted is None else accounted.accountant,
                attacked=None,
                trials=0,
                confidence=confidence,
                why="not chosen",
            )
            if agent in tried:
                result = self._judge(result, tried[agent])
            audited.append(result)
        self._exceeded(audited, tried)
        return audited

    def _accounted(self, agent: int, account: Account) -> Total | None:
        """None where nothing is private, or where a release that holds something of the data was charged nothing."""
        charged = account.all_charged()
        free = [i for c in account.charges if c.mechanism is None for i in range(c.first, c.last + 1)]
        if account.budget is None or any(self._agent(agent).charge(index) is not None for index in free):
            return None
        return total(charged, self._delta) if charged else Total(0.0, "nothing charged", 0.0, 0.0, 0.0)

    def _attack(self, agent: int, trials: int, confidence: float, record: int | None) -> _Tried:
        problem = self._run.problems[agent]
        if problem.records == 0:
            return _Tried(why="no records")
        if record is not None and not 0 <= record < problem.records:
            raise AuditError(f"--record {record}: agent {agent} has records 0 to {problem.records - 1}")
        noise = FreshNoise(self._secret + agent.to_bytes(4, "big"))
        made = trials
        try:
            if self._run.manifest["algorithm"] == _VECTORISED:
                world = self.environment(agent)
                at = sampled_states(world, self._vectors(agent), _RUNS, noise)
                worst = worst_alternative(world, at, record=record, row_bound=self._row_bound(agent))
                scores = attack_scores(world, worst.replacement, 2 * trials, noise)
                replaced, attained = worst.replacement.record, worst.attained
            elif self._masked:
                found, replaced = self._worst_shifts_of_sums(agent, record)
                scores = shift_scores(found, 2 * trials, noise)
                attained = found.attained
            elif self._private and self._perturbs_objective(agent):
                rounds, capacity = self._rounds(agent), self._capacity(agent)
                made = perturbed_objectives.affordable(trials, problem.records, problem.dimension, len(rounds))
                if made < 2:
                    return _Tried(why="too many records and features for the trials of an objective perturbation")
                exact = self._make if issubclass(self._make, DualPerturbation) else Anchor
                row_bound = exact(self._setting(agent)).row_bound
                replacement, attained = perturbed_objectives.worst_replacement(
                    self._setting(agent), capacity, rounds, row_bound=row_bound, record=record
                )
                scores = perturbed_objectives.objective_scores(
                    self._setting(agent), capacity, rounds, replacement, 2 * made, noise
                )
                replaced = replacement.record
            elif (descent := self._descent(agent)) is not None:
                made = local_descent.affordable(trials, problem.records, problem.dimension, descent.steps)
                if made < 2:
                    return _Tried(why="too many records, features and steps for the trials of a local descent")
                tested = self._setting(agent)
                change, move = local_descent.strongest(tested, descent, candidates(tested, record=record))
                scores = local_descent.scores(tested, descent, change, move, 2 * made, noise)
                replaced, attained = change.record, None
            else:
                found, replaced = self._worst_shifts(agent, record)
                scores = shift_scores(found, 2 * trials, noise)
                attained = found.attained
        except InversionError as error:
            return _Tried(why=str(error))
        bound = attacked(*scores, self._delta, confidence)
        return _Tried(bound, scores, replaced, attained, trials=made)

    def _descent(self, agent: int) -> Descent | None:
        """The noisy steps of an agent that releases only what they come to."""
        code = self._agent(agent)
        return code.descent() if isinstance(code, Averaging) else None

    def _worst_shifts(self, agent: int, record: int | None) -> tuple[Shifts, int]:
        best: tuple[Shifts, int] | None = None
        own = self._recording.of(agent)
        mechanisms = self._mechanisms(agent)
        for candidate in candidates(self._setting(agent), record=record, row_bound=self._row_bound(agent)):
            found = shifts(self._make, self._setting(agent), candidate, own, self._recording.heard, mechanisms)
            if best is None or found.divergence > best[0].divergence:
                best = found, candidate.record
        assert best is not None
        return best

    def _worst_shifts_of_sums(self, agent: int, record: int | None) -> tuple[Shifts, int]:
        own, sums = self._setting(agent), self._sums
        best: tuple[Shifts, int] | None = None
        for candidate in candidates(own, record=record):
            changed = replace(own, problem=candidate.apply(own.problem))
            as_is, other = (cast("Aggregating", self._make(s)) for s in (own, changed))  # type: ignore[call-arg]
            found = masked_sums.shifts(as_is, other, sums)
            if best is None or found.divergence > best[0].divergence:
                best = found, candidate.record
        assert best is not None
        return best

    def _judge(self, result: AgentAudit, tried: _Tried) -> AgentAudit:
        if tried.bound is None:
            return replace(result, why=tried.why)
        why = []
        if tried.attained is not None and tried.attained < 0.95:
            why.append(f"the worst replacement uses {tried.attained:.0%} of the sensitivity")
        if result.accounted and 0.0 < self._delta < 1.0:
            mu = gaussian_mu(result.accounted, self._delta)
            shown = expected(mu, tried.bound.observations, self._delta, tried.bound.confidence)
            why.append(f"{tried.trials} trials would show about {shown:.2f} of all {result.accounted:.2f}")
        return replace(
            result,
            attacked=tried.bound.epsilon,
            trials=tried.trials,
            record=tried.record,
            attained=tried.attained,
            ceiling=tried.bound.ceiling,
            why="; ".join(why),
        )

    def _exceeded(self, audited: Sequence[AgentAudit], tried: dict[int, _Tried]) -> None:
        """Attacked above accounted: a finding where it is beyond any chance over all agents."""
        level = 1.0 - _CERTAIN / max(1, len(tried))
        for result in audited:
            scores = tried[result.agent].scores if result.agent in tried else None
            if scores is None or result.accounted is None or result.attacked is None:
                continue
            if result.attacked > result.accounted and attacked(*scores, self._delta, level).epsilon > result.accounted:
                self.findings.append(
                    f"agent {result.agent}: attacked {result.attacked:.2f} exceeds accounted {result.accounted:.2f}"
                )

    # -- 6: other attacks -----------------------------------------------------------------------------------------

    def reconstruction(self, chosen: Sequence[int]) -> dict[str, Any] | None:
        """One record of each chosen agent, from the others and its releases; None for other algorithms."""
        found = []
        for agent in chosen:
            problem = self._run.problems[agent]
            if problem.records == 0 or not self._recording.of(agent):
                continue
            try:
                residual = self._residuals(agent, 0)
            except InversionError:
                continue
            found.append({"agent": agent, **vars(reconstruction.reconstruct(0, problem.x[0], residual))})
        if not found:
            return None
        return {
            "record": 0,
            "agents": found,
            "average": float(np.mean([f["average"] for f in found])),
            "principal": float(np.mean([f["principal"] for f in found])),
            "chance": found[0]["chance"],
        }

    def _residuals(self, agent: int, record: int) -> FloatArray:
        """What the agent's releases say beyond all its records but one. Raises `InversionError`."""
        if issubclass(self._make, Admm):
            recording = self._recording
            rounds = observed_rounds.observe(self._make, self._setting(agent), recording.of(agent), recording.heard)
            return reconstruction.admm_residuals(self._run.problems[agent], self._capacity(agent), rounds, record)
        if self._run.manifest["algorithm"] != _VECTORISED:
            raise InversionError(f"no reconstruction for {self._run.manifest['algorithm']}")
        return reconstruction.residuals(self.environment(agent), self._vectors(agent), record)

    def membership(self) -> dict[str, Any] | None:
        """Training against held-out records of every agent, from its releases alone."""
        members, others = [], []
        for agent in range(self._run.agents):
            rows, said = self._run.rows[agent], self._recording.of(agent)
            if len(rows.y) == 0 or len(rows.y_test) == 0 or not said:
                continue
            if self._run.manifest["algorithm"] == _VECTORISED:
                try:
                    world = self.environment(agent)
                except InversionError:
                    continue
                vectors = self._vectors(agent)
                members.append(membership.gradient_scores(world, vectors, rows.x, rows.y))
                others.append(membership.gradient_scores(world, vectors, rows.x_test, rows.y_test))
            elif said[-1].vector.size == rows.x.shape[1]:
                loss = self._run.problems[agent].loss
                members.append(membership.loss_scores(said[-1].vector, rows.x, rows.y, loss))
                others.append(membership.loss_scores(said[-1].vector, rows.x_test, rows.y_test, loss))
        if not members:
            return None
        found = membership.judge(np.concatenate(members), np.concatenate(others))
        return {key: _finite(value) if isinstance(value, float) else value for key, value in vars(found).items()}

    # -- 7: side channels -----------------------------------------------------------------------------------------

    def side_channels(self) -> list[dict[str, Any]]:
        """Release times and sizes of each agent against its data's size and values."""
        agents = [a for a in range(self._run.agents) if len(self._times(a)) > 1]
        if len(agents) < 3:
            return []
        gaps = [np.diff(self._times(a)) / 1e9 for a in agents]
        measures = {
            "mean time between releases": np.array([g.mean() for g in gaps]),
            "spread of the time between releases": np.array([g.std() for g in gaps]),
            "mean header size": np.array([np.mean(self._recording.headers[a]) for a in agents]),
            "mean body size": np.array([_mean_size(self._recording.bodies[a]) for a in agents]),
        }
        problems = [self._run.problems[a] for a in agents]
        data = {
            "records": np.array([float(p.records) for p in problems]),
            "mean label": np.array([p.y.mean() if p.records else 0.0 for p in problems]),
            "spread of labels": np.array([p.y.std() if p.records else 0.0 for p in problems]),
            "mean row length": np.array(
                [np.sqrt(np.square(p.x).sum(axis=1)).mean() if p.records else 0.0 for p in problems]
            ),
        }
        found = side_channels.correlations(measures, data)
        for correlation in found:
            if correlation.corrected < _CERTAIN:
                self.notes.append(
                    f"{correlation.measure} goes with {correlation.data} (rank correlation {correlation.rho:+.2f}, "
                    f"p = {correlation.corrected:.1e} corrected): epsilon does not cover this"
                )
        return [vars(correlation) for correlation in found]

    # -- what the parts share -------------------------------------------------------------------------------------

    def environment(self, agent: int) -> Environment:
        """What a coordinate-descent agent's recorded releases rested on. Raises `InversionError`."""
        return environment(
            self._setting(agent), self._recording.of(agent), self._recording.heard, self._mechanisms(agent)
        )

    def _mechanisms(self, agent: int) -> list[Mechanism | None]:
        """What each recorded release was charged, or should have been."""
        code, account = self._agent(agent), self._accounts[agent]
        return [
            None if (due := code.charge(r.index)) is None else account.mechanism(r.index) or due
            for r in self._recording.of(agent)
        ]

    def _setting(self, agent: int) -> Setting:
        # Whoever listens has no secret; agents refuse to be made without one.
        return setting(self._run.rows[agent], self._run.public[agent], bytes(32))

    def _agent(self, agent: int) -> Algorithm:
        return self._make(self._setting(agent))  # type: ignore[call-arg]

    def _vectors(self, agent: int) -> FloatArray:
        return np.stack([release.vector for release in self._recording.of(agent)])

    def _times(self, agent: int) -> FloatArray:
        times = [ns for (a, _), ns in self._recording.first_ns.items() if a == agent]
        return np.sort(np.array(times, dtype=np.float64))

    def _row_bound(self, agent: int) -> float | None:
        """The public bound of a row, where the algorithm has one; clipping needs none."""
        bound = getattr(self._agent(agent), "row_bound", None)
        return None if bound is None or not self._private else float(bound)

    def _chosen(self, agents: Sequence[int], record: int | None) -> list[int]:
        for agent in agents:
            if not 0 <= agent < self._run.agents:
                raise AuditError(f"--agent {agent}: the run has agents 0 to {self._run.agents - 1}")
        chosen = sorted(set(agents)) or self._sample()
        for agent in chosen:
            records = self._run.problems[agent].records
            if record is not None and agents and not 0 <= record < records:
                raise AuditError(f"--record {record}: agent {agent} has records 0 to {records - 1}")
        return [a for a in chosen if record is None or record < self._run.problems[a].records]

    def _sample(self) -> list[int]:
        if self._run.agents <= MOST_AGENTS:
            return list(range(self._run.agents))
        order = np.argsort(self._run.records, kind="stable")
        places = np.linspace(0, self._run.agents - 1, SAMPLE).round().astype(int)
        self.notes.append(f"{SAMPLE} of {self._run.agents} agents are attacked, from the fewest records to the most")
        return sorted(int(order[k]) for k in places)


@dataclass(frozen=True, eq=False)
class _Tried:
    bound: Bound | None = None
    scores: tuple[FloatArray, FloatArray] | None = None
    record: int | None = None
    attained: float | None = None
    why: str = ""
    trials: int = 0


def _mean_size(sizes: dict[int, int]) -> float:
    return sum(size * count for size, count in sizes.items()) / max(1, sum(sizes.values()))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
