"""Faults that an implementation could have, each as a change of one line of a copy of the packages.

Rules that hold here:
- A fault breaks the promise: noise that is not what was charged, a charge that is not what a release costs, or a
  release that holds more of the data than its charge covers.
- ``own``: the copy with the fault audits itself, as where one installation makes a run and judges it. Otherwise a
  correct installation audits the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_COMMON = """
[run]
name = "{name}"
seed = 11
simulation = {simulation}
[data]
source = "synthetic"
agents = {agents}
dimension = 4
records = [12, 20]
[topology]
kind = "{graph}"
[learning]
loss = "{loss}"
{learning}
[clock]
updates = {updates}
[privacy]
mechanism = "{mechanism}"
epsilon = 2.0
delta = 1e-3
clip = {clip}
{privacy}
"""


def _task(learning: str, **others: str) -> str:
    values = {"name": "task", "graph": "ring", "updates": "10", "mechanism": "gaussian", "clip": "0.4", "privacy": ""}
    values |= {"loss": "logistic", "agents": "20", "simulation": "true"}
    return _COMMON.format(**values | others, learning=learning)


_DESCENT = 'algorithm = "coordinate-descent"\nmu = 2.5\nsmoothness = 1.0'
_ADMM = 'algorithm = "{}"\nrho = 1.0\ncapacity = 10.0\npenalty = 1.0'
_AVERAGE = 'algorithm = "gradient-descent"\nstep = 0.5\nsmoothness = 1.0\naggregation = "{}"'
_ANCHOR = 'algorithm = "propagation"\nmu = 1.0\nanchor = "{}"'

TASKS: Final[Mapping[str, str]] = {
    "descent": _task(_DESCENT),
    "descent, laplace": _task(_DESCENT, mechanism="laplace"),
    "descent, finish": _task(_DESCENT + "\nfinish = true\nfinish_mu = 5.0"),
    "pvp": _task(_ADMM.format("pvp"), clip="4.0"),
    "pvp, gamma-norm": _task(_ADMM.format("pvp"), clip="4.0", mechanism="gamma-norm"),
    "dvp": _task(_ADMM.format("dvp"), clip="4.0", mechanism="gamma-norm"),
    "gradient descent": _task(_AVERAGE.format("flood"), graph="complete"),
    "masked sums": _task(_AVERAGE.format("masked-sum"), graph="complete", privacy='observer = "sum"'),
    "averaging": _task('algorithm = "averaging"\nlocal_steps = 10\nstep = 0.5\nsmoothness = 1.0', graph="complete"),
    "graph smoothing": _task('algorithm = "graph-smoothing"', updates="30"),
    "graph smoothing, two rounds": _task('algorithm = "graph-smoothing-2r"', updates="30", loss="squared"),
    "propagation": _task(_ANCHOR.format("gradient")),
    "propagation, minimiser": _task(_ANCHOR.format("output-perturbation"), clip="4.0"),
    "propagation, objective": _task(_ANCHOR.format("objective-perturbation"), clip="4.0"),
    "descent, restart": _task(_DESCENT, agents="5", updates="12"),
    "pvp, restart": _task(_ADMM.format("pvp"), clip="4.0", agents="5", updates="12", simulation="false"),
}
"""Small configurations, by name."""

RESTARTED: Final = frozenset({"descent, restart", "pvp, restart"})
"""Tasks over processes, one of whose agents is killed between two releases and started again."""
KILLED: Final = 3
"""The agent that is killed, before it charges release `KILLED_BEFORE`."""
KILLED_BEFORE: Final = 6

_MECHANISMS = "coordinator_free/privacy/mechanisms.py"
_NOISE = "coordinator_free/privacy/noise.py"
_OBJECTIVE = "coordinator_free/problem/objective.py"
_DESCENT_CODE = "coordinator_free/agents/personal/coordinate_descent.py"
_GRADIENTS = "coordinator_free/agents/averages/gradient_descent.py"
_ANCHORS = "coordinator_free/agents/personal/anchors.py"
_AVERAGING = "coordinator_free/agents/averages/averaging.py"
_PRIMAL = "coordinator_free/agents/admm/primal_perturbation.py"
_HIDDEN = "coordinator_free/privacy/objective_perturbation.py"
_SUMS = "coordinator_free/agents/averages/aggregating.py"
_MASKED = "coordinator_free/aggregation/masked_sum.py"


_OUTGOING = "node/agent/outgoing.py"
_RESTART = "node/agent/restart.py"
_CHARGING = "node/agent/charging.py"


@dataclass(frozen=True)
class Mutant:
    """One fault: in the file ``place`` the text ``before``, which stands there once, becomes ``after``."""

    name: str
    task: str
    place: str
    before: str
    after: str
    own: bool = False


_FINITE = "        if not release.finite:\n"
KILL: Final = Mutant(
    "a kill",
    "descent, restart",
    _OUTGOING,
    _FINITE,
    f"        killed = self._around.folder / 'killed'\n"
    f"        if (self._around.agent, release.index) == ({KILLED}, {KILLED_BEFORE}) and not killed.exists():\n"
    "            import os, signal\n"
    "            killed.touch()\n"
    "            os.kill(os.getpid(), signal.SIGKILL)\n" + _FINITE,
)
"""No fault: what kills one agent in the tasks of `RESTARTED`, between two releases, on a machine of any speed."""
_NORMAL = "        normal *= self.scale * STEPS\n"
_LAPLACE = "        return discrete_laplace(stream, dimension, self.scale * STEPS)\n"
_CLIP = "        least, largest = self._slope_limits(clip, norm)\n"
_UNCLIPPED = "        least, largest = -np.inf, np.inf\n"
_HALF = _NORMAL.replace("STEPS", "STEPS * 0.5")
_MADE = "            model = made.perturb(model, self._noise[self._next])\n"
_MOVED = "        sensitivity = own.step * own.pull * moved / own.problem.records\n"

MUTANTS: Final[tuple[Mutant, ...]] = (
    # -- noise that is not what was charged
    Mutant("Gaussian noise halved", "descent", _MECHANISMS, _NORMAL, _HALF),
    Mutant("Gaussian noise at 0.9", "descent", _MECHANISMS, _NORMAL, _NORMAL.replace("STEPS", "STEPS * 0.9")),
    Mutant(
        "Laplace noise halved", "descent, laplace", _MECHANISMS, _LAPLACE, _LAPLACE.replace("STEPS)", "STEPS * 0.5)")
    ),
    Mutant(
        "gamma-norm noise halved",
        "pvp, gamma-norm",
        _MECHANISMS,
        "exponential(stream, dimension).sum() * self.scale * STEPS",
        "exponential(stream, dimension).sum() * self.scale * STEPS * 0.5",
    ),
    Mutant("no noise", "descent", _DESCENT_CODE, _MADE, "            model = np.rint(model * 2**20) / 2**20\n"),
    Mutant("the noise of release 0 in all", "descent", _DESCENT_CODE, _MADE, _MADE.replace("self._next", "0")),
    Mutant(
        "all agents draw the same noise",
        "descent",
        _NOISE,
        'shake_256(_DOMAIN + len(secret).to_bytes(8, "big") + secret + index',
        'shake_256(_DOMAIN + len(secret).to_bytes(8, "big") + index',
    ),
    Mutant(
        "noise of a common part and an own part",
        "descent",
        _MECHANISMS,
        _NORMAL,
        "        normal = 0.8 * normal + 0.6 * standard_normal(Stream(bytes(32), 0), dimension)\n" + _NORMAL,
    ),
    Mutant("noise with a mean", "descent", _MECHANISMS, _NORMAL, "        normal += 0.4\n" + _NORMAL),
    Mutant(
        "noise cut at two deviations",
        "descent",
        _MECHANISMS,
        _NORMAL,
        "        normal = np.clip(normal, -2.0, 2.0)\n" + _NORMAL,
    ),
    Mutant(
        "uniform noise of the right deviation",
        "descent",
        _MECHANISMS,
        _NORMAL,
        "        from scipy.special import ndtr\n        normal = (ndtr(normal) - 0.5) * 12.0**0.5\n" + _NORMAL,
    ),
    Mutant(
        "one draw for all coordinates", "descent", _MECHANISMS, _NORMAL, "        normal[:] = normal[0]\n" + _NORMAL
    ),
    Mutant("noise in every other coordinate", "descent", _MECHANISMS, _NORMAL, "        normal[::2] = 0.0\n" + _NORMAL),
    Mutant(
        "no noise in the last release",
        "descent",
        _DESCENT_CODE,
        _MADE,
        "            if self._next + 1 < self._setting.updates:\n    " + _MADE,
    ),
    Mutant(
        "releases off the grid", "descent", _MECHANISMS, "        np.rint(steps, out=steps)\n", "        steps += 0.0\n"
    ),
    Mutant(
        "noise in the objective halved",
        "dvp",
        _HIDDEN,
        "exponential(stream, dimension).sum()) * self.scale",
        "exponential(stream, dimension).sum()) * self.scale * 0.5",
    ),
    Mutant(
        "noise of local steps halved",
        "averaging",
        _AVERAGING,
        "            noise *= self._factor * due.scale\n",
        "            noise *= 0.5 * self._factor * due.scale\n",
    ),
    Mutant(
        "no noise in half of the local steps",
        "averaging",
        _AVERAGING,
        "            noise *= self._factor * due.scale\n",
        "            noise *= self._factor * due.scale\n            noise[::2] = 0.0\n",
    ),
    Mutant(
        "graph smoothing with half the noise",
        "graph smoothing",
        _MECHANISMS,
        _NORMAL,
        _NORMAL.replace("STEPS", "STEPS * 0.5"),
    ),
    Mutant(
        "graph smoothing in two rounds with half the noise",
        "graph smoothing, two rounds",
        _MECHANISMS,
        _NORMAL,
        _NORMAL.replace("STEPS", "STEPS * 0.5"),
    ),
    Mutant(
        "masked sums with half the noise",
        "masked sums",
        _SUMS,
        "np.rint(noise * (deviation / masking.GRID))",
        "np.rint(noise * (0.5 * deviation / masking.GRID))",
    ),
    Mutant(
        "masked sums without masks",
        "masked sums",
        _MASKED,
        "masking.masked(words, self._agent, own, pairs)",
        "masking.masked(words, self._agent, own, {})",
    ),
    # -- releases that hold more of the data than was charged
    Mutant(
        "a start at the local model",
        "descent",
        _DESCENT_CODE,
        "        model += (1.0 - own.step) * self._model\n",
        "        model += (1.0 - own.step) * (self._model if self._next else self._problem.minimiser())\n",
    ),
    Mutant(
        "the free finish goes on into the next release",
        "descent, finish",
        _DESCENT_CODE,
        "        model += (1.0 - own.step) * self._model\n",
        "        model += (1.0 - own.step) * (self._model if self._next < 9 else self._problem.minimiser())\n",
    ),
    Mutant(
        "a step size from the data",
        "descent",
        _DESCENT_CODE,
        "        model *= own.step\n",
        "        model *= min(1.0, own.step * (1.0 + float(np.abs(self._problem.x).mean())))\n",
    ),
    Mutant(
        "a release that holds another agent's label",
        "descent",
        _DESCENT_CODE,
        _MADE,
        _MADE + "            model[0] += 0.125 * getattr(type(self), 'other', 0.0)\n"
        "            type(self).other = float(self._problem.y[0])\n",
    ),
    Mutant(
        "labels in the lowest bits",
        "descent",
        _DESCENT_CODE,
        _MADE,
        _MADE + "            label = int(self._problem.y[self._next % self._problem.records] > 0)\n"
        "            model[0] += (int(model[0] * 2**20) + label) % 2 / 2**20\n",
    ),
    # -- noise that is used twice across a restart
    Mutant(
        "an index that was sent is used again after a restart",
        "descent, restart",
        _RESTART,
        "    talk.agent.restore(state, talk.charger.charged)\n",
        "    talk.agent.restore(state, outgoing.last)\n",
    ),
    Mutant(
        "noise is counted from the start of the process",
        "descent, restart",
        _DESCENT_CODE,
        _MADE,
        "            self.drawn = getattr(self, 'drawn', -1) + 1\n" + _MADE.replace("self._next", "self.drawn"),
    ),
    Mutant(
        "every start of a process has the same nonce",
        "pvp, restart",
        _CHARGING,
        "os.urandom(NONCE_BYTES)",
        "bytes(NONCE_BYTES)",
    ),
    # -- charges that are not what a release costs, judged by the same installation
    Mutant("a clip that does not act", "descent", _OBJECTIVE, _CLIP, _UNCLIPPED, own=True),
    Mutant(
        "a clip that is twice as long", "descent", _OBJECTIVE, _CLIP, _CLIP.replace("clip,", "2.0 * clip,"), own=True
    ),
    Mutant(
        "a sensitivity charged 1.3 times too small",
        "descent",
        _DESCENT_CODE,
        _MOVED,
        _MOVED.replace(" moved", " moved / 1.3"),
        own=True,
    ),
    Mutant(
        "a sensitivity of the removal of a record, not its exchange",
        "descent",
        _DESCENT_CODE,
        _MOVED,
        _MOVED.replace(" moved", " 0.5 * moved"),
        own=True,
    ),
    Mutant(
        "a gradient descent without its clip",
        "gradient descent",
        _OBJECTIVE,
        _CLIP,
        "        least, largest = -np.inf, np.inf\n",
        own=True,
    ),
    Mutant(
        "a sensitivity of all agents' records",
        "gradient descent",
        _GRADIENTS,
        "        own, total = self._problem.records, sum(self._sizes)\n",
        "        own, total = sum(self._sizes), sum(self._sizes)\n",
        own=True,
    ),
    Mutant(
        "graph smoothing without its clip",
        "graph smoothing",
        _OBJECTIVE,
        _CLIP,
        "        least, largest = -np.inf, np.inf\n",
        own=True,
    ),
    Mutant(
        "an anchor charged half of its sensitivity",
        "propagation",
        _ANCHORS,
        "            exact = self._scale * moved / records\n",
        "            exact = 0.5 * self._scale * moved / records\n",
        own=True,
    ),
    Mutant(
        "a local minimiser charged a quarter of its sensitivity",
        "propagation, minimiser",
        _ANCHORS,
        "            exact = (clip / records + SOLVED) / self._lambda",
        "            exact = 0.25 * (clip / records + SOLVED) / self._lambda",
        own=True,
    ),
    Mutant(
        "a round's minimiser charged a tenth of its sensitivity",
        "pvp",
        _PRIMAL,
        "            return shift / self.curvature(index)\n",
        "            return 0.1 * shift / self.curvature(index)\n",
        own=True,
    ),
    Mutant(
        "a noisy objective charged a quarter of its shift",
        "propagation, objective",
        _ANCHORS,
        "            moved = 2.0 * clip / records\n",
        "            moved = 0.5 * clip / records\n",
        own=True,
    ),
)
"""All faults."""
