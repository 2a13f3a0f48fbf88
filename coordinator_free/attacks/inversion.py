"""From recorded releases to the noise in them: an observer that knows every record runs the agent's own code.

Rules that hold here:
- The agent is the real one. Only its mechanism is exchanged: asked to perturb a value, it notes the value and answers
  with the release that was recorded, so that the agent's state goes on from what it really released.
- What an agent consumed, and in which order, is what its releases name as used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from coordinator_free.agent import Agent
from coordinator_free.privacy.ledger import covers
from coordinator_free.privacy.mechanism import GRID, Mechanism
from coordinator_free.privacy.noise import Stream
from coordinator_free.release import FloatArray, Release

Heard = Mapping[tuple[int, int], Release]
"""Every recorded release, by (agent, index)."""


class InversionError(ValueError):
    """Releases that the agent's code cannot follow: one is missing, or the code would make none there."""


class NotPerturbed(InversionError):
    """A release was charged, but its noise is not added to it: it enters the objective that it minimises."""


class Smuggled(InversionError):
    """A release that wraps its noisy vector holds something that the agent's code does not make of that vector."""


@dataclass(frozen=True, eq=False)
class Inverted:
    """One release, the value it had before the noise, and the mechanism that its state asks for (None: no noise).

    ``noised``: the vector that holds the noise, where that is not the release's own (see `noised_part`).
    """

    release: Release
    exact: FloatArray
    mechanism: Mechanism | None
    noised: FloatArray | None = None

    @property
    def noise(self) -> FloatArray:
        """The noise that it must contain: what is left over the exact value on the grid, shape (d,)."""
        said = self.release.vector if self.noised is None else self.noised
        if self.mechanism is None:
            return said - self.exact
        return said - np.rint(self.exact / GRID) * GRID


def in_force(charged: Mechanism | None, asked: Mechanism | None) -> Mechanism | None:
    """The mechanism that a release has to have, from its charge and from what its public state asks for.

    A charge may name another sensitivity than the state asks for, at the same multiplier: a group is charged before its
    releases are made, and an agent may be wrong about its own state. Then the state decides.
    """
    if charged is None or asked is None:
        return charged or asked
    return asked if covers(charged, asked) or covers(asked, charged) else charged


def noised_part(agent: Agent, release: Release) -> FloatArray:
    """The noisy vector in a charged release: see `Agent.noised`."""
    return agent.noised(release.index, release.vector)


class _Recorder:
    """Stands in for an agent's mechanism and notes the exact value that it was given."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        self.exact: FloatArray | None = None

    def stand_in(self, made_with: Callable[[int], Mechanism | None], index: int) -> Mechanism:
        """Be what the agent makes release ``index`` with, at its state of this moment."""
        made = made_with(index)
        itself = cast("Mechanism", self)
        if made is not None and made is not itself:
            self.mechanism = made
        return itself

    def __getattr__(self, name: str) -> Any:
        return getattr(self.mechanism, name)

    def perturb(self, vector: FloatArray, stream: Stream) -> FloatArray:
        self.exact = np.array(vector)
        return self.mechanism.perturb(vector, stream)

    def noted(self, release: Release) -> FloatArray:
        """The exact value of ``release``; raises `NotPerturbed` if it was not perturbed here."""
        if self.exact is None:
            raise NotPerturbed(f"release {release.index} of agent {release.sender}: the noise is in its objective")
        return self.exact


class _Playback(_Recorder):
    """Answers with the recorded release."""

    def __init__(self, mechanism: Mechanism, answer: FloatArray) -> None:
        super().__init__(mechanism)
        self._answer = answer

    def perturb(self, vector: FloatArray, stream: Stream) -> FloatArray:  # noqa: ARG002
        self.exact = np.array(vector)
        return self._answer


def invert(agent: Agent, recorded: Sequence[Release], heard: Heard) -> list[Inverted]:
    """Run a fresh agent along its recorded releases (by index) and return each with its exact value.

    Raises `InversionError` where a release that was used is not recorded, or the code makes none there.
    """
    follower = Follower(agent)
    return [follower.follow(release, heard) for release in recorded]


class Follower:
    """One agent, led along its recorded releases, with what it had received by each."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._charge, self._made_with = agent.charge, agent.made_with
        self._snapshots: dict[int, dict[str, FloatArray]] = {}
        self._previous: int | None = None
        self._started = False

    def follow(self, release: Release, heard: Heard) -> Inverted:
        """The exact value of the agent's next release, whose noisy value is given: its state goes on from that.

        Raises `Smuggled` where the release does not follow from its noisy value.
        """
        charged = self._charge(release.index)
        if charged is None:
            return Inverted(release, self._move(release, heard, None).vector, None)
        noised = noised_part(self._agent, release)
        playback = _Playback(charged, noised)
        said = self._move(release, heard, playback)
        made, sent = (self._agent.derived(release.index, one.vector) for one in (said, release))
        if not np.array_equal(made, sent):
            raise Smuggled(
                f"release {release.index} holds more than its noisy vector and what follows from it: the agent's code "
                "makes another message of both"
            )
        return Inverted(release, playback.noted(release), playback.mechanism, noised)

    def step(self, place: Release, heard: Heard) -> Release:
        """Lead the agent to its next place and let it make its release by its own means."""
        return self._move(place, heard, None)

    def _move(self, place: Release, heard: Heard, mechanism: _Recorder | None) -> Release:
        agent, index = self._agent, place.index
        own = next((i for sender, i in reversed(place.used) if sender == place.sender), None)
        expected = 0 if self._previous is None else self._previous + 1
        if index != expected or own != self._previous:
            self._go_on(own, index)
        if mechanism is not None:
            agent.charge = lambda _index: mechanism  # type: ignore[method-assign, assignment, return-value]
            agent.made_with = partial(mechanism.stand_in, self._made_with)  # type: ignore[method-assign]
        try:
            said = self._say(place, heard)
        finally:
            agent.charge = self._charge  # type: ignore[method-assign]
            agent.made_with = self._made_with  # type: ignore[method-assign]
        if said is None or said.index != index:
            raise InversionError(f"agent {place.sender} would not have made release {index} there")
        self._snapshots[index], self._previous = agent.snapshot(), index
        return said

    def _say(self, place: Release, heard: Heard) -> Release | None:
        if not self._started:
            self._started = True
            said = self._agent.start()
            if said is not None and said.index == place.index:
                return said
        for sender, index in place.used:
            if sender == place.sender:
                continue
            if (sender, index) not in heard:
                raise InversionError(
                    f"release {place.index} of agent {place.sender} used release {index} of agent {sender}, "
                    "which was not recorded"
                )
            self._agent.receive(heard[sender, index])
        return self._agent.wake()

    def _go_on(self, own: int | None, index: int) -> None:
        """After a restart some indices are skipped, and the state comes from an older release of its own."""
        if own is not None and own not in self._snapshots:
            raise InversionError(f"release {index} comes from release {own} of the same agent, which was not recorded")
        self._agent.restore({} if own is None else self._snapshots[own], index)
        self._started = True
