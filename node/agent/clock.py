"""The life of an agent without rounds: it wakes at the ticks of its own Poisson clock.

Rules that hold here:
- The socket is drained at a tick, not at each arrival: an agent needs the newest models when it wakes.
- A delayed agent keeps its clock rate; a paused agent does not replay the ticks it missed.
- Once every neighbour has finished, an agent makes its remaining updates without waiting for clock ticks.
"""

from __future__ import annotations

import time

from coordinator_free.clocks import waits
from coordinator_free.inbox import NewestInbox
from node.agent.conversation import Conversation

LAG = 1.0
"""Seconds that an agent's clock may be behind before missed ticks are given up."""
STOOD_STILL = 3.0
"""If an agent got no processor for so many seconds, it drops all missed ticks. (1,000 busy agents wait about 1 s.)"""
CATCHING_UP = 0.5
"""Seconds that a resumed agent drains its socket before its next release: waiting messages arrive in batches."""


def live_on_a_clock(talk: Conversation, inbox: NewestInbox) -> None:
    """Wake at each tick until the agent has finished.

    An agent that stood still (it was stopped, or the machine was) has nothing new to release at the ticks that it
    missed: it gives them up, and first receives everything that has waited for it. An agent that is late because it was
    busy, with a neighbour's flood for example, goes on as fast as it can, and receives no more at a time.

    Raises
    ------
    Stopped, Left
        As soon as the agent is told so.
    """
    agent, around = talk.agent, talk.around
    ticks = waits(around.clock_seed, around.agent, around.rate)
    now = time.monotonic()
    tick = now + next(ticks)
    while not agent.finished:
        due = max(tick, now)
        now = _until(tick, talk)
        if now > due + STOOD_STILL:
            tick = _catch_up(talk, now) + next(ticks)
            continue
        talk.receive()
        for release in inbox.take():
            agent.receive(release)
        talk.release(agent.wake())
        tick = max(tick + next(ticks), now - LAG)


def _until(tick: float, talk: Conversation) -> float:
    """Wait for a tick, unless no news can come any more; returns the time."""
    while True:
        talk.check_orders()
        now = time.monotonic()
        if now >= tick or _has_received_all(talk):
            return now
        talk.orders.wait(tick - now)


def _has_received_all(talk: Conversation) -> bool:
    """Whether the last release of every neighbour is here; never of agents that answer each other."""
    return not talk.agent.addressed and talk.incoming.has_all


def _catch_up(talk: Conversation, now: float) -> float:
    """Receive for a while; returns the time after it."""
    caught_up = now + CATCHING_UP
    while now < caught_up:
        talk.receive()
        talk.check_orders()
        talk.wait(caught_up - now)
        now = time.monotonic()
    return now
