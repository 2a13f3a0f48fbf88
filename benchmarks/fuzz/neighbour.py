"""An active neighbour: does anything that it can send end an agent, change a charge, or go uncounted?

    python benchmarks/fuzz/neighbour.py [--messages 1000000] [--seed 1]

An agent of every algorithm, private ones with every kind of mechanism, receives frames of two neighbours that lie: any
finite vectors and some that are not, any index, round, origin, key message, hello and done. Frames go the way of a
process: checks (`node.wire.Receiver`), inbox, agent. Where an agent has finished, a new one begins. Checked are that

- no agent raises, but for a `Halt` of a masked sum or push-sum, which gives no wrong sum without notice;
- every release of a private run is finite and within the box that receivers accept, and its indices only rise;
- what releases cost is the same after all messages as before them;
- every frame was accepted, a repeat, or dropped with a reason.

Prints one JSON document; exit status 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from coordinator_free.agent import Activation, Halt, Setting
from coordinator_free.agents.personal.signatures import NUMBERS, verification_key
from coordinator_free.agents.registry import algorithm
from coordinator_free.algorithm import Algorithm
from coordinator_free.inbox import NewestInbox, RoundInbox
from coordinator_free.privacy.mechanism import LARGEST_PLAIN, LARGEST_RECEIVED
from coordinator_free.problem.losses import LOGISTIC, SQUARED
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray, Release
from node.agent.receipts import Receipts
from node.hello import Hello, Receipt
from node.wire import Done, Parts, Receiver, encode
from topology import families

RUN: Final = bytes(range(16))
AGENTS: Final = 3
ME, NEIGHBOURS = 0, (1, 2)
DIMENSION, RECORDS, UPDATES = 3, 12, 12
LEARNING: Final[dict[str, Any]] = {
    "mu": 1.0,
    "smoothness": 0.27,
    "finish": True,
    "finish_mu": 1.0,
    "kappa": 0.1,
    "capacity": 20.0,
    "rho": 0.5,
    "penalty": 0.8,
    "agents": AGENTS,
    "second_moment": (np.eye(DIMENSION) / DIMENSION).tolist(),
}
CASES: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("coordinate-descent", "laplace", {}),
    ("coordinate-descent", "gaussian", {"start": "neighbours"}),
    ("coordinate-descent", "none", {}),
    ("propagation", "gaussian", {"anchor": "gradient"}),
    ("propagation", "gamma-norm", {"anchor": "objective-perturbation"}),
    ("warm-start", "gamma-norm", {"warm_updates": 4}),
    ("graph-smoothing", "gaussian", {}),
    ("graph-smoothing-2r", "gaussian", {}),
    ("graph-smoothing-2r", "gaussian", {"signers": [verification_key(bytes([j]) * 32, RUN).hex() for j in range(3)]}),
    ("gossip-admm", "none", {}),
    ("admm", "none", {}),
    ("m-admm", "none", {"penalty_growth": 1.05}),
    ("dvp", "gamma-norm", {}),
    ("pp", "gamma-norm", {"penalty_growth": 1.05}),
    ("pvp", "gaussian", {}),
    ("pvp", "gamma-norm", {"last_round": "dvp"}),
    ("pvp", "gaussian", {"pvp_form": "as_published"}),
    ("gradient-descent", "gaussian", {"step": 1.0, "aggregation": "flood", "momentum": 0.5}),
    ("gradient-descent", "laplace", {"step": 1.0, "aggregation": "push-sum", "push_rounds": 4}),
    ("gradient-descent", "gaussian", {"step": 1.0, "aggregation": "masked-sum", "observer": "sum"}),
    ("averaging", "gaussian", {"step": 1.0, "aggregation": "flood"}),
)
_NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, 5e-324, 1e-170, 2.0**-20, 1e6, -1e9, 2.0**31, 2.0**32, -(2.0**32))
_TOO_MUCH = (1e12, -1e16, 2.0**33, 1e300, -1.7e308, float("nan"), float("inf"), -float("inf"))


@dataclass
class Report:
    """What one case came to."""

    messages: int = 0
    accepted: int = 0
    repeats: int = 0
    agents: int = 0
    releases: int = 0
    halts: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def fault(self, what: str) -> None:
        """Note a failed check."""
        if len(self.faults) < 3:
            self.faults.append(what)


@dataclass(frozen=True)
class Case:
    """An algorithm in a run, and the public numbers that its messages must fit."""

    kind: type[Algorithm]
    setting: Setting
    releases: int
    width: int

    @property
    def largest(self) -> float:
        """The size of the largest coordinate that is accepted."""
        return LARGEST_PLAIN if self.setting.mechanism == "none" else LARGEST_RECEIVED

    @property
    def may_stop(self) -> bool:
        """Whether a `Halt` is right: of sums that are implausible no average is made."""
        return self.setting.learning.get("aggregation") in ("masked-sum", "push-sum")


def case(name: str, mechanism: str, extra: dict[str, Any]) -> Case:
    """The agent `ME` of a whole graph of `AGENTS` agents."""
    kind, network = algorithm(name), families.build("complete", AGENTS, 0)
    x = np.random.default_rng(5).uniform(-1.0, 1.0, size=(RECORDS, DIMENSION)) / np.sqrt(DIMENSION)
    squared = name == "graph-smoothing-2r"
    problem = LocalProblem(x, np.where(x[:, 0] > 0, 1.0, -1.0), SQUARED if squared else LOGISTIC, 0.01)
    learning = {**LEARNING, **extra}
    arranged = kind.arranged(network, [RECORDS] * AGENTS, DIMENSION, UPDATES, learning)
    charged = kind.charged(UPDATES) if kind.charged(UPDATES) else UPDATES
    setting = Setting(
        agent=ME,
        neighbours=network.neighbours(ME),
        weights=network.weights_of(ME),
        problem=problem,
        dimension=DIMENSION,
        updates=UPDATES,
        learning={**learning, **arranged.get("learning", {})},
        mechanism=mechanism,
        multipliers=np.empty(0) if mechanism == "none" else np.full(charged, 2.0),
        clip=1.0,
        secret=bytes(32),
        run=RUN,
    )
    releases = int(arranged.get("releases", kind.releases(UPDATES, len(NEIGHBOURS))))
    width = int(arranged.get("release_dimension", kind.release_dimension(DIMENSION)))
    return Case(kind, setting, releases, width + (NUMBERS if "signers" in extra else 0))


class Liar:
    """Frames that a neighbour can send."""

    def __init__(self, of: Case, seed: int) -> None:
        self._case = of
        self._draw = random.Random(seed)
        self.next = dict.fromkeys(NEIGHBOURS, 0)

    def frame(self, round_: int) -> Parts:
        """Any message; ``round_`` is the one that its victim waits for."""
        draw, sender = self._draw, self._draw.choice(NEIGHBOURS)
        kind = draw.random()
        if kind < 0.02:
            return encode(RUN, Hello(sender, draw.randbytes(32), self._receipt(), draw.random() < 0.5, self._echoes()))
        if kind < 0.04:
            return encode(RUN, Done(sender, draw.randrange(-1, 2**40), (draw.randrange(2**40),), (ME, 2)))
        index = self.next[sender] if draw.random() < 0.7 else draw.randrange(self._case.releases + 3)
        self.next[sender] = max(self.next[sender], index + 1)
        number: int | None = round_
        if draw.random() < 0.2:
            number = draw.choice((round_ + 1, max(0, round_ - 1), draw.randrange(2**63), None))
        used = tuple((draw.choice((0, 1, 2, 2**31)), draw.randrange(40)) for _ in range(draw.randrange(4)))
        recipient = ME if self._case.kind.addressed and draw.random() < 0.9 else draw.choice((None, None, None, ME, 2))
        return encode(RUN, Release(sender, index, self._vector(), used, number, recipient))

    def _receipt(self) -> Receipt | None:
        draw = self._draw
        made_up = Receipt(draw.randrange(2**40), draw.randrange(2**40), draw.randbytes(16))
        return draw.choice((None, made_up, replace(made_up, charged=0)))

    def _echoes(self) -> tuple[tuple[int, Receipt], ...]:
        draw = self._draw
        return tuple((draw.choice((ME, 2)), one) for one in (self._receipt(), self._receipt()) if one is not None)

    def _vector(self) -> FloatArray:
        draw, width = self._draw, self._case.width
        kind = draw.random()
        if kind < 0.3:
            vector = [draw.gauss(0.0, 1.0) for _ in range(width)]
        elif kind < 0.4:
            vector = [float(draw.randrange(2**32)) for _ in range(width)]
        elif kind < 0.5:
            vector = [draw.choice((-1.0, 1.0)) * draw.choice(_NUMBERS)] * width
        elif kind < 0.9:
            vector = [draw.choice((0.0, draw.gauss(0.0, 1.0), draw.choice(_NUMBERS))) for _ in range(width)]
        else:
            vector = [draw.choice((*_NUMBERS, *_TOO_MUCH)) for _ in range(width)]
        if draw.random() < 0.6:
            vector[0] = float(draw.randrange(2 * AGENTS + 1))  # an origin, or the number of an exchange
        return np.array(vector)


def attack(of: Case, messages: int, seed: int) -> Report:
    """Send ``messages`` frames to agents of one case, one agent after the other."""
    report = Report()
    costs = _costs(of.kind(of.setting), of)
    while report.messages < messages and not report.faults:
        try:
            _one_agent(of, report, min(messages, report.messages + 6 * of.releases * len(NEIGHBOURS)), seed)
        except Halt as halt:
            report.halts += 1
            if not of.may_stop:
                report.fault(f"Halt: {halt}")
        except Exception:
            report.fault(traceback.format_exc()[-600:])
        seed += 1
    if _costs(of.kind(of.setting), of) != costs:
        report.fault("a charge has changed")
    if report.accepted + report.repeats + sum(report.dropped.values()) != report.messages:
        report.fault("a frame was neither accepted nor counted")
    return report


def _costs(agent: Algorithm, of: Case) -> list[Any]:
    return [agent.charge(index) for index in range(of.releases)]


def _one_agent(of: Case, report: Report, until: int, seed: int) -> None:
    """Send frames up to number ``until`` to a new agent, or until it has finished."""
    report.agents += 1
    agent, liar = of.kind(of.setting), Liar(of, seed)
    costs = _costs(agent, of)
    receiver = Receiver(RUN, ME, NEIGHBOURS, of.width, of.releases, of.largest)
    receipts = Receipts(
        ME, of.setting.secret, RUN, starts=1, charged=lambda: 1, releases=of.releases, dropped=Counter()
    )
    rounds = RoundInbox(NEIGHBOURS, late=of.kind.carries_on) if of.kind.activation is Activation.ROUNDS else None
    newest = NewestInbox(newest_only=of.kind.newest_only)
    last = _checked(of, report, agent.start(), -1)
    try:
        while report.messages < until and not agent.finished:
            report.messages += 1
            releases, others = receiver.take([liar.frame(rounds.round if rounds else 0)])
            report.accepted += len(others)
            for other in others:
                if isinstance(other, Hello):
                    receipts.take(other)
            if receipts.newer is not None:
                report.fault("a made-up receipt counts")
            for release in releases:
                _offer(of, receiver, rounds or newest, release)
            if report.messages % 4 if rounds is None else rounds.missing:
                continue
            for release in newest.take() if rounds is None else rounds.take():
                agent.receive(release)
            last = _checked(of, report, agent.wake(), last)
        _check_end(of, report, agent)
    finally:
        report.accepted += receiver.received
        report.repeats += receiver.repeats
        report.dropped += receiver.dropped
        if _costs(agent, of) != costs:
            report.fault("a charge has changed")


def _offer(of: Case, receiver: Receiver, inbox: NewestInbox | RoundInbox, release: Release) -> None:
    """Give a release to the inbox, as an agent's process does."""
    if isinstance(inbox, RoundInbox) and (release.round is None or release.round >= of.releases):
        receiver.dropped["round"] += 1
        receiver.received -= 1
    else:
        inbox.offer(release)


def _check_end(of: Case, report: Report, agent: Algorithm) -> None:
    """Check what an agent leaves."""
    if of.setting.mechanism != "none" and not np.isfinite(agent.model).all():
        report.fault("the model is not finite")
    if agent.finished:
        agent.finish()


def _checked(of: Case, report: Report, release: Release | None, last: int) -> int:
    """Check a release of the attacked agent; returns the newest index."""
    if release is None:
        return last
    report.releases += 1
    if not last < release.index < of.releases:
        report.fault(f"release {release.index} follows {last}")
    if not np.abs(release.vector).max() <= of.largest and of.setting.learning.get("aggregation") != "push-sum":
        report.fault(f"release {release.index} is no vector that a neighbour accepts")
    return release.index


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    ends = [options.messages * number // len(CASES) for number in range(len(CASES) + 1)]
    rows, total, faults = [], 0, 0
    with np.errstate(all="ignore"):  # as in an agent's process
        for number, (name, mechanism, extra) in enumerate(CASES):
            report = attack(
                case(name, mechanism, extra), ends[number + 1] - ends[number], 1_000_000 * (options.seed + number)
            )
            total, faults = total + report.messages, faults + len(report.faults)
            rows.append({"algorithm": name, "mechanism": mechanism, **extra, **vars(report)})
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"messages": total, "faults": faults, "seconds": seconds, "cases": rows}, indent=1))
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
