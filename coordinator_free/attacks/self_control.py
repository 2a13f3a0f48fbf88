"""The auditor's own controls: each tool shown something that it must find, and something that it must not.

Rules that hold here:
- Nothing here needs a run: small networks run in the twin, with fixed seeds, so that a control is a fact, not luck.
- A control that fails names what was measured and what it should have been.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coordinator_free.agent import Setting
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.attacks.bounds import Bound, attacked
from coordinator_free.attacks.charges import Account, Charge, Expected, check_charges
from coordinator_free.attacks.inversion import Inverted, invert
from coordinator_free.attacks.likelihood_ratio import Environment, FreshNoise, Replacement, attack_scores, environment
from coordinator_free.attacks.noise_tests import NoiseRow, NoiseVerdict, examine
from coordinator_free.attacks.worst_case import sampled_states, worst_alternative
from coordinator_free.privacy.accounting import total
from coordinator_free.privacy.mechanism import GRID, Mechanism
from coordinator_free.problem.losses import SQUARED
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray, Release
from coordinator_free.twin.run import run_asynchronous
from topology.families import build

AGENTS, UPDATES, RECORDS, DIMENSION = 20, 10, 5, 3
DELTA = math.exp(-5)
CONFIDENCE = 0.99
TRIALS = 25000
SECRET = b"controls of the auditor itself.."
MINIMUM = 0.75
"""The share of a known epsilon that has to be shown with `TRIALS` trials."""


@dataclass(frozen=True)
class Control:
    """One control: what was shown to the auditor, whether it judged rightly, and what it measured."""

    name: str
    passed: bool
    measured: str


@dataclass(frozen=True, eq=False)
class _Twin:
    """A run of agents in the twin, recorded as a whole."""

    settings: tuple[Setting, ...]
    heard: dict[tuple[int, int], Release]

    def of(self, agent: int) -> list[Release]:
        return [self.heard[key] for key in sorted(self.heard) if key[0] == agent]

    def inverted(self, agent: int) -> list[Inverted]:
        return invert(CoordinateDescent(self.settings[agent]), self.of(agent), self.heard)

    def expected(self, agent: int) -> dict[int, Mechanism | None]:
        code = CoordinateDescent(self.settings[agent])
        return {index: code.charge(index) for index in range(UPDATES)}


def controls() -> list[Control]:
    """All controls, in order."""
    run = _run()
    return [
        *_attack_controls(),
        _flagged("a correct run's noise", _noise(run), due=False),
        _flagged("noise at half its scale", _noise(run, _halved), due=True, below=1e-6),
        _flagged("noise of one agent used by another", _noise(_run(shared_secret=True)), due=True),
        _flagged("noise used again at another index", _noise(run, _reused), due=True),
        _flagged("step sizes that depend on the data", _noise(_run(step_from_data=True), public=run), due=True),
        *_ledger_controls(run),
    ]


# -- the likelihood ratio -------------------------------------------------------------------------------------------


def _attack_controls() -> list[Control]:
    found = []
    one = _environment(_run(agents=3, updates=1, multiplier=1.0, opposite=True))
    own = one.setting.problem
    same = Replacement(0, own.x[0], float(own.y[0]))
    bound = _bound(one, same)
    found.append(Control("identical datasets give attacked = 0", bound.epsilon == 0.0, f"attacked {bound.epsilon:.3f}"))
    for name, multiplier, updates in (("laplace", 1.0, 1), ("laplace", 4.0, 10), ("gaussian", 4.0, 5)):
        run = _run(agents=3, updates=updates, multiplier=multiplier, opposite=True, mechanism=name)
        world = _environment(run)
        worst = worst_alternative(world, _states(world, run))
        bound = _bound(world, worst.replacement)
        known = total(world.mechanisms, DELTA).epsilon
        found.append(
            Control(
                f"a known epsilon is approached and not exceeded: {updates} {name}",
                MINIMUM * known <= bound.epsilon <= known,
                f"attacked {bound.epsilon:.3f} of {known:.3f}",
            )
        )
    half = replace(world, mechanisms=tuple(_half(m) for m in world.mechanisms))
    bound = _bound(half, worst.replacement)
    found.append(
        Control(
            "half the noise is attacked beyond what was accounted",
            bound.epsilon > known,
            f"attacked {bound.epsilon:.3f}, accounted {known:.3f}",
        )
    )
    return found


def _bound(world: Environment, replacement: Replacement) -> Bound:
    scores = attack_scores(world, replacement, 2 * TRIALS, FreshNoise(SECRET))
    return attacked(*scores, DELTA, CONFIDENCE)


def _states(world: Environment, run: _Twin) -> FloatArray:
    return sampled_states(world, np.stack([r.vector for r in run.of(0)]), 16, FreshNoise(SECRET))


def _environment(run: _Twin) -> Environment:
    return environment(run.settings[0], run.of(0), run.heard, [row.mechanism for row in run.inverted(0)])


def _half(mechanism: Mechanism | None) -> Mechanism:
    assert mechanism is not None
    return replace(mechanism, scale=mechanism.scale / 2.0)  # type: ignore[type-var]


# -- the noise ------------------------------------------------------------------------------------------------------

_Change = Callable[[list[NoiseRow]], list[NoiseRow]]


def _noise(run: _Twin, change: _Change | None = None, *, public: _Twin | None = None) -> NoiseVerdict:
    """The tests of a run's noise. ``public``: the settings that the auditor believes in, if they are others."""
    believed = public or run
    rows: list[NoiseRow] = []
    for agent in range(len(run.settings)):
        before = np.zeros(DIMENSION)
        code = CoordinateDescent(believed.settings[agent])
        for row in invert(code, run.of(agent), run.heard):
            assert row.mechanism is not None
            rows.append(NoiseRow(agent, row.release.index, row.noise, row.mechanism, drift=row.exact - before))
            before = row.release.vector
    return examine(change(rows) if change is not None else rows)


def _halved(rows: list[NoiseRow]) -> list[NoiseRow]:
    return [replace(row, noise=np.rint(row.noise / 2.0 / GRID) * GRID) for row in rows]


def _reused(rows: list[NoiseRow]) -> list[NoiseRow]:
    again = next(row.noise for row in rows if (row.agent, row.index) == (1, 2))
    return [replace(row, noise=again) if (row.agent, row.index) == (1, 7) else row for row in rows]


def _flagged(name: str, verdict: NoiseVerdict, *, due: bool, below: float = 1.0) -> Control:
    passed = (not verdict.ok and verdict.p_value < below) if due else verdict.ok
    found = verdict.findings[0] if verdict.findings else f"p = {verdict.p_value:.2g}"
    return Control(f"{name} {'is' if due else 'is not'} flagged", passed, found)


# -- the ledger -----------------------------------------------------------------------------------------------------


def _ledger_controls(run: _Twin) -> list[Control]:
    said, expected = run.of(0), run.expected(0)
    mechanism = expected[0]
    assert mechanism is not None
    spent = total([mechanism] * UPDATES, DELTA).epsilon
    right = Account([Charge(0, UPDATES - 1, mechanism)], budget=(spent, DELTA))
    other = replace(said[3], vector=said[3].vector + GRID)
    weak = _half(mechanism)
    return [
        _found("a correct ledger", said, right, expected, None),
        _found(
            "an uncharged release", said, replace(right, charges=[Charge(0, UPDATES - 2, mechanism)]), expected, "never"
        ),
        _found("a charge made twice", said, replace(right, charges=[*right.charges] * 2), expected, "twice"),
        _found("noise drawn again for an index", [*said, other], right, expected, "drawn again"),
        _found("an overspent budget", said, replace(right, budget=(spent / 2.0, DELTA)), expected, "over budget"),
        _found(
            "a charge for other noise than configured",
            said,
            replace(right, charges=[Charge(0, UPDATES - 1, weak)], budget=(9.0 * spent, DELTA)),
            expected,
            "configured",
        ),
        _found(
            "a release that is not on the grid",
            [replace(said[0], vector=said[0].vector + GRID / 3.0)],
            right,
            expected,
            "grid",
        ),
    ]


def _found(name: str, said: Sequence[Release], account: Account, expected: Expected, word: str | None) -> Control:
    findings = check_charges(0, said, account, expected)
    if word is None:
        return Control(f"{name} has no finding", not findings, findings[0] if findings else "no finding")
    hits = [finding for finding in findings if word in finding]
    return Control(f"{name} is found", bool(hits), hits[0] if hits else "no finding")


# -- small runs -----------------------------------------------------------------------------------------------------


def _run(
    *,
    agents: int = AGENTS,
    updates: int = UPDATES,
    mechanism: str = "gaussian",
    multiplier: float = 4.0,
    shared_secret: bool = False,
    step_from_data: bool = False,
    opposite: bool = False,
) -> _Twin:
    """Coordinate descent on a ring. ``opposite``: agent 0 has a record that pulls with full clipping throughout."""
    rng = np.random.default_rng(7)
    network = build("ring", agents, 0)
    settings = []
    for agent in range(agents):
        x, y = rng.uniform(-1.0, 1.0, (RECORDS, DIMENSION)), rng.normal(2.0, 1.0, RECORDS)
        if opposite and agent == 0:
            x[0], y[0] = np.eye(DIMENSION)[0], 1000.0
        problem = LocalProblem(x, y, SQUARED, 0.1 / RECORDS)
        public = 2.0 * DIMENSION + 0.2 / RECORDS
        settings.append(
            Setting(
                agent=agent,
                neighbours=network.neighbours(agent),
                weights=network.weights_of(agent),
                problem=problem,
                dimension=DIMENSION,
                updates=updates,
                learning={"mu": 1.0, "smoothness": problem.smoothness_of_data() if step_from_data else public},
                mechanism=mechanism,
                multipliers=np.full(updates, multiplier),
                clip=1.0,
                secret=(SECRET if shared_secret else SECRET + bytes([agent])),
            )
        )
    transcript = run_asynchronous([CoordinateDescent(s) for s in settings], network, rate=1.0, seed=7)
    return _Twin(tuple(settings), {(r.sender, r.index): r for r in transcript.releases})
