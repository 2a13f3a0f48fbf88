"""The audit of a run from outside: from its traffic log and the coins of its canaries, without any shard.

Rules that hold here:
- Everything rests on the log, on the public documents that it carries, and on the coins. Charges are computed from
  public numbers, since an outsider has no ledger; the noise in the canaries' coordinates is tested against them.
- The digest of the coins is in the log, so it was there before the first release.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from coordinator_free.agents.registry import algorithm
from coordinator_free.attacks import noise_tests
from coordinator_free.attacks.attacker import Observed
from coordinator_free.attacks.canaries import Canary, judge, stand_in
from coordinator_free.attacks.charges import Account, Charge, check_charges
from coordinator_free.attacks.inversion import InversionError
from coordinator_free.attacks.noise_tests import NoiseRow
from coordinator_free.attacks.one_run_bound import agreement, coin_bound, named_bound
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.analytic_gaussian import gaussian_mu
from coordinator_free.release import FloatArray, Release
from node.audit.evidence import CERTAIN
from node.audit.report import AuditError, CaptureReport, NoiseReport
from node.audit.restarts import drawn_again
from node.audit.sensitivity import ROUNDED
from node.folder.canaries import Coins, Planted, read_coins
from node.folder.public import PublicNumbers
from node.folder.shard import Rows, setting
from node.places import CANARIES
from node.traffic.completeness import CaptureCounter
from node.traffic.reader import TrafficLogReader
from node.untyped import Json
from node.wire import message

VERSION: Final = 1
"""Of what ``--json`` prints."""
NOTHING: Final = np.empty(0)


@dataclass(frozen=True)
class Outside:
    """What an outsider finds.

    ``canaries`` were judged, ``held`` of them had their first value. ``accounted`` is the largest epsilon of an agent
    with canaries, by the public numbers; None if no canary was judged. ``attacked`` is the lower bound of names, which
    holds whatever the law of the noise; ``attacked_if_charged`` the sharp one. ``expected``: what as many canaries show
    on average, by either, where the accountant is tight. ``attained``: the mean share of the sensitivity that the two
    values of a canary are apart.
    """

    run: str
    record: str
    delta: float
    confidence: float
    capture: CaptureReport
    noise: NoiseReport
    canaries: int
    held: int
    accounted: float | None
    attacked: float | None
    names: int
    right: int
    attacked_if_charged: float | None
    expected: float | None
    expected_if_charged: float | None
    attained: float | None
    findings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no finding."""
        return not self.findings

    def to_json(self) -> Json:
        """What ``sottovoce audit --log --json`` prints; it follows ``node/schemas/outside-audit.schema.json``."""
        return {"version": VERSION, **asdict(self), "ok": self.ok}


@dataclass
class _Logged:
    """The releases in a log by (agent, index), and all of each agent."""

    capture: CaptureReport
    drawn_again: list[str]
    releases: dict[tuple[int, int], Release] = field(default_factory=dict)
    sent: dict[int, list[Release]] = field(default_factory=dict)

    def of(self, agent: int) -> list[Release]:
        return [self.releases[key] for key in sorted(key for key in self.releases if key[0] == agent)]


@dataclass
class _Seen:
    """What the agents' releases came to, as far as they were judged."""

    scores: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    held: int = 0
    accounted: float | None = None
    rows: list[NoiseRow] = field(default_factory=list)
    untested: list[int] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def audit_log(logs: Sequence[Path], coins: Path, *, confidence: float = 0.95) -> Outside:
    """Audit the run whose traffic is in ``logs`` by the coins of its canaries.

    Raises
    ------
    AuditError
        For logs without canaries, coins of another run, or numbers out of range; and what the readers raise.
    """
    if not 0.5 < confidence < 1.0:
        raise AuditError(f"--confidence {confidence:g}: accepted is above 0.5 and below 1")
    readers = [TrafficLogReader(path) for path in logs]
    planted, flipped = _planted(readers[0]), read_coins(coins)
    _check_coins(planted, flipped, coins)
    logged = _read(readers, planted)
    seen = _Seen(findings=logged.drawn_again)
    if flipped.commitment != planted.commitment:
        seen.findings.append("the coins are not those whose digest the log carries")
    for numbers in planted.agents:
        _judge(numbers, planted, flipped, logged, seen)
    return _report(planted, logged, seen, confidence)


def _planted(reader: TrafficLogReader) -> Planted:
    document = reader.attachments.get(CANARIES)
    if document is None:
        raise AuditError(f"--log {reader.path}: carries no canaries; accepted is the log of a run with audit.canaries")
    try:
        return Planted.from_json(json.loads(document))
    except (KeyError, TypeError, ValueError) as error:
        raise AuditError(f"--log {reader.path}: the canaries that it carries cannot be read: {error}") from None


def _check_coins(planted: Planted, coins: Coins, path: Path) -> None:
    run = planted.agents[0].run
    if coins.run != run:
        raise AuditError(f"--coins {path}: are of run {coins.run.hex()}, the log is of run {run.hex()}")
    if len(coins.sides) != len(planted.canaries):
        raise AuditError(f"--coins {path}: {len(coins.sides)} coins; the log names {len(planted.canaries)} canaries")


def _read(readers: Sequence[TrafficLogReader], planted: Planted) -> _Logged:
    run = planted.agents[0].run
    counter = CaptureCounter(run, range(len(planted.agents)))
    releases: dict[tuple[int, int], Release] = {}
    sent: dict[int, list[Release]] = {}
    for reader in readers:
        for frame in reader:
            header = counter.count(frame.parts)
            if header is None or header["kind"] != "release":
                continue
            release = message(header, frame.parts[2])
            assert isinstance(release, Release)
            if release.vector.size == planted.agents[release.sender].release_dimension:
                releases.setdefault((release.sender, release.index), release)
                sent.setdefault(release.sender, []).append(release)
    capture = counter.verdict()
    return _Logged(CaptureReport(**capture.as_results()), drawn_again(capture), releases, sent)


def _judge(numbers: PublicNumbers, planted: Planted, coins: Coins, logged: _Logged, seen: _Seen) -> None:
    """Judge one agent: its charges, its canaries, and its noise."""
    agent = numbers.agent
    own = [(c, side) for c, side in zip(planted.canaries, coins.sides, strict=True) if c.agent == agent]
    recorded = logged.of(agent)
    if not recorded or numbers.records == 0:
        seen.notes += [f"agent {agent}: no release, so {len(own)} canaries are not judged"] if own else []
        return
    observed = _observed(numbers, own, recorded, logged)
    expected = {index: observed.code().charge(index) for index in range(numbers.releases)}
    follows = observed.code().follows_its_model
    seen.findings += check_charges(agent, logged.sent[agent], observed.account, expected, follows=follows)
    try:
        found = judge(observed, [canary for canary, _ in own], sorted({c.column for c in planted.canaries}))
    except InversionError as error:
        seen.notes.append(f"agent {agent}: not judged, {error}")
        seen.untested.append(agent)
        return
    seen.rows += found.noise
    if own and numbers.budget is not None:
        epsilon = total(observed.account.all_charged(), numbers.budget[1]).epsilon
        seen.accounted = max(seen.accounted or 0.0, epsilon)
    seen.scores += found.scores.tolist()
    seen.shares += found.shares.tolist()
    seen.held += sum(side for _, side in own)


def _observed(
    numbers: PublicNumbers, own: Sequence[tuple[Canary, bool]], recorded: list[Release], logged: _Logged
) -> Observed:
    """The agent as an outsider knows it: with a stand-in for its records, and the charges that are due."""
    nothing = np.empty((0, numbers.dimension)), NOTHING
    known = stand_in(
        setting(Rows(*nothing, *nothing), numbers, bytes(32)),
        numbers.records,
        [canary for canary, _ in own],
        [side for _, side in own],
    )
    make = algorithm(numbers.algorithm)
    code = Observed(make, known, recorded, logged.releases, Account([])).code()
    due = [(index, code.charge(index)) for index in range(numbers.releases)]
    charges = [Charge(index, index, mechanism) for index, mechanism in due if mechanism is not None]
    return Observed(make, known, recorded, logged.releases, Account(charges, budget=numbers.budget))


def _report(planted: Planted, logged: _Logged, seen: _Seen, confidence: float) -> Outside:
    tested = noise_tests.examine(seen.rows)
    findings = [*seen.findings, *tested.findings]
    if not logged.capture.complete:
        seen.notes.append("the capture is incomplete: what is missing is not judged")
    scores, delta = np.array(seen.scores), planted.delta
    attained = float(np.mean(seen.shares)) if seen.shares else None
    if max(seen.shares, default=0.0) > 1.0 + ROUNDED:
        findings.append(f"a canary moves releases by {max(seen.shares):.0%} of the sensitivity that was charged")
    if agreement(scores) < math.log(CERTAIN):
        findings.append("the releases do not hold the values of the canaries that the coins name")
    named = named_bound(scores, delta, confidence) if scores.size else None
    sharp = coin_bound(scores, delta, confidence) if scores.size else None
    if seen.accounted is not None and named is not None and sharp is not None:
        findings += _exceeded(scores, delta, seen.accounted, max(named.epsilon, sharp))
    expected = _expected(seen.accounted, delta, scores.size, confidence)
    first = planted.agents[0]
    return Outside(
        run=first.run.hex(),
        record=first.record,
        delta=delta,
        confidence=confidence,
        capture=logged.capture,
        noise=NoiseReport(tested.ok, tested.p_value, tested.releases, tested.tests, tuple(seen.untested)),
        canaries=scores.size,
        held=seen.held,
        accounted=seen.accounted,
        attacked=None if named is None else named.epsilon,
        names=0 if named is None else named.names,
        right=0 if named is None else named.right,
        attacked_if_charged=sharp,
        expected=expected[0],
        expected_if_charged=expected[1],
        attained=attained,
        findings=tuple(dict.fromkeys(findings)),
        notes=tuple(seen.notes),
    )


def _exceeded(scores: FloatArray, delta: float, accounted: float, shown: float) -> list[str]:
    """A finding where the canaries show more than was accounted, beyond any chance."""
    if shown <= accounted:
        return []
    certain = 1.0 - CERTAIN / 2.0
    highest = max(named_bound(scores, delta, certain).epsilon, coin_bound(scores, delta, certain))
    return [f"attacked {shown:.2f} exceeds accounted {accounted:.2f}"] if highest > accounted else []


def _expected(accounted: float | None, delta: float, canaries: int, confidence: float) -> tuple[float | None, ...]:
    """About what both bounds show on average of a Gaussian mechanism that spends all: the mean of some fixed draws."""
    if not accounted or not canaries or not 0.0 < delta < 1.0:
        return None, None
    mu, rng = gaussian_mu(accounted, delta), np.random.default_rng(0)
    draws = mu * mu / 2.0 + mu * rng.standard_normal((20, canaries))
    named = [named_bound(draw, delta, confidence).epsilon for draw in draws]
    sharp = [coin_bound(draw, delta, confidence) for draw in draws]
    return float(np.mean(named)), float(np.mean(sharp))
