"""The agent interface: an algorithm is a small state machine that is given events and returns what it would release.

Rules that hold here:
- An agent never does I/O. Sockets, clocks, files and the ledger are its driver's; the same object runs over
  processes, in containers and in the twin.
- A wake without a release changes no state.
- Noise is a function of (the agent's secret, the start of its process, the release's index), so nothing depends on how
  often a generator was called.
- Sums over neighbours run in agent order, never in arrival order.
- ``charge(index)`` states what release ``index`` costs *before* it is computed, from public numbers only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from coordinator_free.privacy.mechanism import Mechanism
from coordinator_free.privacy.noise import Start, Stream, secret_of
from coordinator_free.privacy.windows import Windows
from coordinator_free.problem.objective import LocalProblem
from coordinator_free.release import FloatArray, Release


class Halt(ValueError):
    """Why an agent cannot go on, in one line: raised by its ``receive`` or ``wake``. It releases nothing after that."""


class Diverged(Halt):
    """A release that is not finite: it was charged, and must not be sent."""

    def __init__(self, release: Release) -> None:
        super().__init__(
            f"agent {release.sender}: release {release.index} is not finite, the steps diverge or a number overflows; "
            "it was charged and not sent (try a larger learning.smoothness, or smaller steps)"
        )


class Activation(Enum):
    """When an agent wakes: a declared property of its algorithm."""

    POISSON = "poisson"
    """After exponential waits, asynchronously (Bellet et al. 2018, section 2.3)."""
    ROUNDS = "rounds"
    """When every neighbour's release of the current round is here."""


@dataclass(frozen=True)
class Setting:
    """All that an agent is given: its own data, and public numbers about itself and its neighbours.

    ``problem`` is private; everything else is public. ``weights`` are W_ij in the order of ``neighbours`` (ascending).
    ``multipliers`` holds one noise scale per release, in units of that release's sensitivity (empty: no privacy);
    ``mechanism`` names their family. ``learning`` holds the algorithm's own public parameters. ``secret`` is the
    agent's own, and ``starts`` are the starts of its process in this run, in order.
    """

    agent: int
    neighbours: tuple[int, ...]
    weights: FloatArray
    problem: LocalProblem
    dimension: int
    updates: int
    learning: Mapping[str, Any]
    confidence: float = 1.0
    mechanism: str = "none"
    multipliers: FloatArray = field(default_factory=lambda: np.empty(0))
    clip: float | None = None
    row_bound: float | None = None
    """Public bound of every row's norm, in the norm of the mechanism. None: there is none, or an older run."""
    secret: bytes = b""
    run: bytes = b""
    """The run's id; empty where nothing has been dealt yet."""
    starts: tuple[Start, ...] = ()

    def secret_of(self, index: int) -> bytes:
        """The secret that release ``index`` may draw from: that of the start which it is made under."""
        return secret_of(self.secret, self.starts, index)

    def stream(self, index: int) -> Stream:
        """The noise of release ``index``."""
        return Stream(self.secret_of(index), index)


@runtime_checkable
class Agent(Protocol):
    """A decentralised algorithm, seen from one agent. Constructed from a `Setting`."""

    name: ClassVar[str]
    activation: ClassVar[Activation]
    newest_only: ClassVar[bool]
    """Only a neighbour's newest release matters: a driver may pass over older ones that arrived with it."""
    addressed: ClassVar[bool]
    """Some releases have one recipient."""

    @abstractmethod
    def start(self) -> Release | None:
        """Its first release, before any other agent's; None: it waits."""

    @abstractmethod
    def receive(self, release: Release) -> None:
        """Take a neighbour's release."""

    @abstractmethod
    def wake(self) -> Release | None:
        """Its clock ticked, or its round is complete."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether it has made its last release."""

    @property
    @abstractmethod
    def model(self) -> FloatArray:
        """Its model as it stands, shape (p,)."""

    def finish(self) -> FloatArray | None:
        """The free finish: a last, never released minimisation; None if the algorithm or the setting has none."""
        return None

    @abstractmethod
    def charge(self, index: int) -> Mechanism | None:
        """What release ``index`` costs, and the most noise that it has; None if nothing of the data is in it."""

    def made_with(self, index: int) -> Mechanism | None:
        """The mechanism of the newest release or of the next one, at the agent's present state.

        Its charge, or one of the same multiplier with a smaller sensitivity, where that follows public models.
        """
        return self.charge(index)

    @property
    def gathers(self) -> bool:
        """Of an agent in rounds: it releases a round once what it awaits of the *same* round is here.

        Any other agent releases a round once what it awaits of the round before is here.
        """
        return False

    def awaited(self, round_: int) -> tuple[int, ...] | None:  # noqa: ARG002
        """The neighbours whose releases of a round it needs before it goes on, ascending; None: all neighbours."""
        return None

    @property
    def windows(self) -> Windows:
        """For each record, the first and the last release that may use it; empty: every release uses all records."""
        return ()

    @property
    def follows_its_model(self) -> bool:
        """Whether the scale of its noise depends on a public model, so that `made_with` may differ from `charge`."""
        return False

    def noised(self, index: int, vector: FloatArray) -> FloatArray:  # noqa: ARG002
        """The noisy vector in the charged release ``index``: the release's own, unless the agent wraps it."""
        return vector

    def derived(self, index: int, vector: FloatArray) -> FloatArray:  # noqa: ARG002
        """What charged release ``index`` holds beside its noisy vector, as far as it follows from released vectors."""
        return vector[:0]

    @abstractmethod
    def snapshot(self) -> dict[str, FloatArray]:
        """Its state after its last release, for `restore`."""

    @abstractmethod
    def restore(self, state: Mapping[str, FloatArray], next_index: int) -> None:
        """Go on from a snapshot ({}: from the data-independent start) with release ``next_index``."""
