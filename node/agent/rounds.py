"""The life of an agent in rounds: it wakes when every neighbour's release of the round is here.

Rules that hold here:
- An agent that waits repeats its last two releases, the same bytes: that repairs slow joiners, loss and restarts.
- When a round is closed without a neighbour is decided elsewhere, without a socket (`RoundWait`).
"""

from __future__ import annotations

import time

from coordinator_free.agent import Halt
from coordinator_free.inbox import CarriedPast, Complete, RoundInbox, RoundWait, Silent
from coordinator_free.release import Release
from node.agent.conversation import Conversation
from node.agent.surroundings import AgentFailure
from node.exit_codes import ExitCode
from node.places import agents_in_words


def live_in_rounds(talk: Conversation, inbox: RoundInbox, waiting: RoundWait) -> None:
    """Wake at each complete round until the agent has finished.

    Raises
    ------
    AgentFailure
        `ExitCode.SILENT` with ``network.on_silent = "stop"``, once a neighbour was silent for ``network.silent``.
    Halt
        But for ``"carry-on"``, once a neighbour has ended before the round.
    Stopped, Left
        As soon as the agent is told so.
    """
    waiting.begin(talk.incoming.listening.seconds)
    while not talk.agent.finished:
        for release in _await_round(talk, inbox, waiting):
            talk.agent.receive(release)
        talk.release(talk.agent.wake())


def _await_round(talk: Conversation, inbox: RoundInbox, waiting: RoundWait) -> list[Release]:
    """Return what the next wake is to consume."""
    around, listening = talk.around, talk.incoming.listening
    waiting.begin_round(listening.seconds)
    next_repeat = time.monotonic() + around.repeat
    talk.receive()
    while True:
        match waiting.decide(inbox, listening.seconds):
            case CarriedPast(past):
                around.notes.append(f"carried past: from round {inbox.round} to round {past + 1}")
                return inbox.take_past(past)
            case Complete(without):
                return inbox.take(without=without)
            case Silent() as silence:
                talk.check_orders()
                _note_silence(talk, silence, inbox.round)
                waiting.give_up(silence.agents)
                if silence.alone:
                    return inbox.take(without=waiting.absent)
                continue
        talk.check_orders()
        if around.on_silent != "carry-on" and (ended := inbox.ended(talk.incoming.ended)):
            raise Halt(f"round {inbox.round}: {agents_in_words(ended)} ended before it")
        now = time.monotonic()
        if now >= next_repeat:
            talk.outgoing.repeat()
            next_repeat = now + around.repeat
        talk.wait(next_repeat - now)
        talk.receive()


def _note_silence(talk: Conversation, silence: Silent, number: int) -> None:
    around = talk.around
    who = agents_in_words(silence.agents)
    reason = f"round {number}: nothing from {who} for network.silent = {around.silent:g} s"
    if around.on_silent == "stop":
        raise AgentFailure(ExitCode.SILENT, reason)
    if not silence.alone:
        around.notes.append(reason + "; carried on without")
