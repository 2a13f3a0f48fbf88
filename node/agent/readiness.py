"""How an agent becomes ready: every neighbour listens to it and has sent something, and the eavesdropper listens.

Rules that hold here:
- There is no sleeping until "everybody must be there by now": the deadline's error names which neighbour is missing.
- An agent that was restarted after its very last release does not need neighbours that have gone for good.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from node.agent.conversation import Conversation
from node.agent.surroundings import AgentFailure, expected_listeners
from node.exit_codes import ExitCode
from node.folder.status import State
from node.places import agents_in_words
from node.sockets.agent_sockets import Endpoints
from node.sockets.names import NamedEndpoints
from node.wire import EAVESDROPPER, own_name

FIRST_LOOK, LAST_LOOK = 0.02, 0.4
"""Seconds between two looks of an agent that gets ready, at first and at most: its neighbours' messages come one by
one, and to wake for each costs more than all of them together."""
FIRST_HELLO, LAST_HELLO = 4.0, 10.0
"""Time between two hellos, at first and at most, as a multiple of ``network.repeat``."""


@dataclass(frozen=True)
class Ready:
    """When an agent became ready: seconds after it began to look for its neighbours, and processor time until then."""

    after: float
    cpu: float


def become_ready(talk: Conversation) -> Ready:
    """Return once every awaited neighbour and the eavesdropper listen and every awaited neighbour has sent something.

    Raises
    ------
    AgentFailure
        `ExitCode.NOT_READY` after ``network.deadline``, or for a neighbour with another public configuration.
    Stopped
        If the agent is told to stop meanwhile.
    """
    around = talk.around
    bound = talk.post.bind(around.bind)
    if around.publish is not None:
        around.publish(bound)
    around.hold()
    began_at = time.monotonic()
    talk.outgoing.recall()
    talk.enter(State.LISTENING)
    _meet(talk, began_at)
    talk.ready_ns = time.monotonic_ns()
    return Ready(talk.ready_ns / 1e9 - began_at, time.process_time())


def _meet(talk: Conversation, began_at: float) -> None:
    around, post = talk.around, talk.post
    expected = expected_listeners(around, around.awaited)
    unknown = set(around.awaited)
    hellos = _Hellos(around.repeat, began_at)
    look = FIRST_LOOK
    deadline = began_at + around.deadline
    while True:
        _connect(talk, unknown)
        began = post.notice_listeners()
        now = time.monotonic()
        listening = expected <= post.listeners
        # A hello that is sent when all listen reaches all: the repeated ones are for neighbours that come early.
        if (began and listening) or hellos.due(now):
            talk.hello(asks=True)
            hellos.sent(now)
        talk.receive()
        talk.check_orders()
        if talk.incoming.strangers:
            talk.hello()
            raise AgentFailure(ExitCode.NOT_READY, _disagreement(talk))
        if not unknown and listening and talk.incoming.met.issuperset(around.awaited):
            return
        if now >= deadline:
            _give_up(talk, unknown)
            return
        until = min(hellos.next_at, deadline)
        talk.wait((min(until, now + look) if unknown else until) - now)
        talk.orders.wait(look)
        look = min(2.0 * look, LAST_LOOK)


class _Hellos:
    """When the next hello is due: less and less often."""

    def __init__(self, repeat: float, now: float) -> None:
        self._repeat = repeat
        self._patience = FIRST_HELLO * repeat
        self.next_at = now

    def due(self, now: float) -> bool:
        return now >= self.next_at

    def sent(self, now: float) -> None:
        self.next_at = now + self._patience
        self._patience = min(2.0 * self._patience, LAST_HELLO * self._repeat)


def _connect(talk: Conversation, unknown: set[int]) -> None:
    """Connect to the ``unknown`` neighbours whose endpoints have become known, and take them out."""
    for j in sorted(unknown):
        endpoint = talk.around.endpoints.lookup(j)
        if endpoint is not None:
            talk.post.connect(endpoint, j)
            unknown.discard(j)


def _give_up(talk: Conversation, unknown: set[int]) -> None:
    """At the deadline: begin without the missing where that is right, with a note; otherwise raise."""
    around = talk.around
    if around.joins and (not around.eavesdropper or EAVESDROPPER in talk.post.listeners):
        around.notes.append("joined without some: " + _not_ready(talk, unknown))
    elif _had_sent_all(talk):
        around.notes.append("had released everything before its restart: " + _not_ready(talk, unknown))
    else:
        raise AgentFailure(ExitCode.NOT_READY, _not_ready(talk, unknown))


def _had_sent_all(talk: Conversation) -> bool:
    """Whether the agent was restarted after its very last release: neighbours that have it may be gone for good."""
    last = talk.around.releases - 1
    return talk.charger.charged > last and last in talk.outgoing.sent


def _disagreement(talk: Conversation) -> str:
    names = ", ".join(f"agent {j}" for j in sorted(talk.incoming.strangers))
    return f"{names}: another public configuration than mine (algorithm, updates, graph or privacy differ); refused"


def _not_ready(talk: Conversation, unknown: set[int]) -> str:
    around, listeners = talk.around, talk.post.listeners
    wanting = []
    silent = sorted(around.awaited - talk.incoming.met)
    deaf = sorted(j for j in around.awaited if own_name(j) not in listeners)
    if unknown:
        wanting.append(_unknown(around.endpoints, sorted(unknown)))
    if silent:
        wanting.append("nothing received from " + agents_in_words(silent))
    if deaf:
        wanting.append("not listened to by " + agents_in_words(deaf))
    if around.eavesdropper and EAVESDROPPER not in listeners:
        wanting.append("the eavesdropper does not listen")
    foreign = talk.incoming.receiver.dropped["run"]
    if foreign:
        wanting.append(f"{foreign} frames of another run were refused")
    return f"not ready after network.deadline = {around.deadline:g} s: " + "; ".join(wanting)


def _unknown(endpoints: Endpoints, numbers: list[int]) -> str:
    if isinstance(endpoints, NamedEndpoints):
        return "; ".join(endpoints.problem(j) for j in numbers[:8])
    return "no endpoint of " + agents_in_words(numbers)
