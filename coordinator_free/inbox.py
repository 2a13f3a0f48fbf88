"""What an agent consumes and when: the part of a driver that every world must do alike.

Rules that hold here:
- An inbox decides only from what arrived, never from a clock. A wait is told the time, and decides from that.
- What is consumed is recorded in order, so that the agent's next release can name it.
- Of a round's releases, and of several neighbours' releases that arrived together, the lowest agent number goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from coordinator_free.release import Release, Used

_BY_SENDER = attrgetter("sender")


class NewestInbox:
    """For asynchronous algorithms: between two wakes, holds what arrived, newest release of each neighbour last.

    With ``newest_only`` releases that are older than what arrived before are passed over and not named as used.
    """

    def __init__(self, *, newest_only: bool) -> None:
        self._newest_only = newest_only
        self._waiting: dict[int, Release] = {}
        """The last to be consumed of each neighbour."""
        self._before: list[Release] = []
        """What is to be consumed before those, in the order of arrival."""
        self._newest: dict[int, int] = {}

    def offer(self, release: Release) -> None:
        """Take in a release that has arrived."""
        sender = release.sender
        if self._newest_only:
            if release.index <= self._newest.get(sender, -1):
                return
            self._newest[sender] = release.index
        elif sender in self._waiting:
            self._before.append(self._waiting[sender])
        self._waiting[sender] = release

    def take(self) -> list[Release]:
        """Everything to be consumed now, in agent order, then in the order of arrival."""
        taken = [self._waiting[sender] for sender in sorted(self._waiting)]
        self._waiting.clear()
        if self._before:
            taken = sorted([*self._before, *taken], key=_BY_SENDER)
            self._before.clear()
        return taken


class RoundInbox:
    """For algorithms in rounds: a round is complete when every neighbour's release of it is here.

    Releases of later rounds wait; releases of earlier rounds are late and ignored. With ``late`` they are consumed with
    the next round: an agent that closes rounds without a neighbour learns from each what that neighbour had consumed.
    ``awaited`` names the neighbours that a round needs, ascending, where these are not all (None); releases of others
    are ignored.
    """

    def __init__(
        self,
        neighbours: Iterable[int],
        *,
        late: bool = False,
        awaited: Callable[[int], tuple[int, ...] | None] = lambda _: None,
    ) -> None:
        self._neighbours = tuple(sorted(neighbours))
        self._awaited = awaited
        self._take_late = late
        self._late: list[Release] = []
        self._held: dict[int, dict[int, Release]] = {}
        self._rounds: dict[tuple[int, int], int] = {}
        """The round of each (sender, index) that was offered."""
        self.round = 0

    def offer(self, release: Release) -> None:
        """Take in a release that has arrived; raises ValueError for one that has no round."""
        if release.round is None:
            raise ValueError(f"release {release.index} of agent {release.sender} has no round")
        self._rounds[release.sender, release.index] = release.round
        if release.round >= self.round:
            self._held.setdefault(release.round, {}).setdefault(release.sender, release)
        elif self._take_late:
            self._late.append(release)

    @property
    def missing(self) -> tuple[int, ...]:
        """Neighbours whose release of the current round is not here."""
        here = self._held.get(self.round, {})
        return tuple(j for j in self._needed if j not in here)

    @property
    def _needed(self) -> tuple[int, ...]:
        needed = self._awaited(self.round)
        return self._neighbours if needed is None else needed

    def ended(self, last: Mapping[int, int]) -> tuple[int, ...]:
        """Neighbours that never send the current round: their last release is here, and is of an earlier round.

        ``last`` holds the last index (-1: none) of each neighbour that has said it, and has sent nothing newer.
        """
        return tuple(j for j in self.missing if j in last and self._is_over(j, last[j]))

    def _is_over(self, neighbour: int, last: int) -> bool:
        return last < 0 or self._rounds.get((neighbour, last), self.round) < self.round

    def carried_past(self, absent: Collection[int] = ()) -> int | None:
        """The newest round that was left behind without this agent; None if none was.

        A neighbour that waits for this agent's round is at most one round ahead. No round counts that is newer than
        what more than half of the neighbours, but for those that are ``absent``, have sent: so one neighbour among
        several cannot carry the agent past its own releases.
        """
        past = [r for r in self._held if r > self.round and r + 1 in self._held]
        if not past:
            return None
        newest = self._newest()
        reached = sorted((newest.get(j, self.round) for j in self._neighbours if j not in absent), reverse=True)
        attested = reached[len(reached) // 2] if reached else self.round
        return max((r for r in past if r <= attested), default=None)

    @property
    def passed_over(self) -> frozenset[int]:
        """Neighbours that will never send the current round: of two releases in a row one is older, one is newer."""
        later = [release for r, held in self._held.items() if r > self.round for release in held.values()]
        before = ((m.sender, self._rounds.get((m.sender, m.index - 1), self.round)) for m in later)
        return frozenset(sender for sender, round_ in before if round_ < self.round)

    @property
    def far_ahead(self) -> frozenset[int]:
        """Neighbours that closed a round without this agent: they are two rounds ahead, or say so."""
        return frozenset(j for j, r in self._newest().items() if r > self.round + 1)

    def _newest(self) -> dict[int, int]:
        """The newest round of each neighbour of which something is held."""
        newest: dict[int, int] = {}
        for r, held in self._held.items():
            for sender in held:
                newest[sender] = max(newest.get(sender, r), r)
        return newest

    def take(self, *, without: Collection[int] = ()) -> list[Release]:
        """The round's releases in agent order, complete but for agents ``without``; the next round becomes current.

        Of each agent those that came late go first.
        """
        missing = set(self.missing).difference(without)
        if missing:
            raise ValueError(f"round {self.round} is not complete: agents {sorted(missing)} are missing")
        needed, taken = self._needed, self._held.pop(self.round, {})
        self.round += 1
        return self._with_late([taken[j] for j in needed if j in taken])

    def take_past(self, round_: int) -> list[Release]:
        """Each neighbour's newest release up to ``round_``, in agent order; the round after it becomes current."""
        newest: dict[int, Release] = {}
        for held in sorted(r for r in self._held if r <= round_):
            newest.update(self._held[held])
        self.jump(round_ + 1)
        return self._with_late([newest[j] for j in self._neighbours if j in newest])

    def _with_late(self, taken: list[Release]) -> list[Release]:
        if not self._late:
            return taken
        both = sorted([*self._late, *taken], key=lambda release: (release.sender, release.index))
        self._late.clear()
        return both

    def jump(self, to_round: int) -> None:
        """Give up the rounds before ``to_round``: the agent was carried past."""
        for old in [r for r in self._held if r < to_round]:
            del self._held[old]
        self.round = to_round


@dataclass(frozen=True, slots=True)
class Complete:
    """The round can be closed, if need be without agents ``without``."""

    without: frozenset[int]


@dataclass(frozen=True, slots=True)
class CarriedPast:
    """Neighbours closed rounds without this agent: it goes on after ``round``."""

    round: int


@dataclass(frozen=True, slots=True)
class Silent:
    """Neighbours ``agents`` were silent for too long; ``alone`` if nothing came from any neighbour."""

    agents: tuple[int, ...]
    alone: bool


class RoundWait:
    """Decides whether an agent in rounds goes on, and without which neighbours.

    With ``carry-on`` a round is closed without neighbours of which nothing arrived for ``silent`` seconds, not even a
    repeat (an agent that waits repeats itself), and an agent that was carried past goes on with the newest round. A
    silent neighbour is waited for again once it sends something new. An agent that hears no neighbour is itself the one
    that is cut off: each of its rounds waits for the deadline, or it would spend its budget alone.

    Parameters
    ----------
    neighbours
        The agents whose releases a round needs.
    silent
        Seconds without a message after which a neighbour is silent.
    on_silent
        ``"wait"``: wait for ever; ``"stop"`` or ``"carry-on"``: tell the caller.
    """

    def __init__(self, neighbours: Iterable[int], silent: float, on_silent: str) -> None:
        self._neighbours = tuple(neighbours)
        self._silent = silent
        self._on_silent = on_silent
        self._heard_at: dict[int, float] = {}
        self._since = 0.0
        self.absent: set[int] = set()
        """Neighbours whose silence outlasted the deadline, until they send something new."""

    def begin(self, now: float) -> None:
        """Start to measure silence: before ``now`` no neighbour had to send anything."""
        self._heard_at = dict.fromkeys(self._neighbours, now)

    def begin_round(self, now: float) -> None:
        """Start to wait for a round, at ``now``."""
        self._since = now

    def heard(self, senders: Iterable[int], now: float) -> None:
        """Note that something arrived from each of ``senders``, were it a repeat."""
        self._heard_at.update(dict.fromkeys(senders, now))

    def came_back(self, senders: Iterable[int]) -> None:
        """Note that something new arrived from each of ``senders``."""
        self.absent.difference_update(senders)

    def give_up(self, agents: Iterable[int]) -> None:
        """Do not wait for ``agents`` until they send something new."""
        self.absent.update(agents)

    def decide(self, inbox: RoundInbox, now: float) -> Complete | CarriedPast | Silent | None:
        """Return what to do at ``now``, in seconds of listening; None: wait on."""
        carry_on = self._on_silent == "carry-on"
        if carry_on and (past := inbox.carried_past(self.absent)) is not None:
            return CarriedPast(past)
        alone = self.absent.issuperset(self._neighbours)
        gone = self._gone(inbox) if carry_on else frozenset()
        missing = [j for j in inbox.missing if j not in gone and (alone or j not in self.absent)]
        if not missing:
            return Complete(gone | self.absent)
        if self._on_silent == "wait":
            return None
        since = self._since if alone else 0.0
        silent = tuple(j for j in missing if now >= max(self._heard_at[j], since) + self._silent)
        return Silent(silent, alone) if silent else None

    def _gone(self, inbox: RoundInbox) -> frozenset[int]:
        """Neighbours that the round is closed without: this agent is not carried past, and they do not wait for it.

        Where all that are heard are far ahead, the agent waits to be carried past: it does not go on alone.
        """
        gone, ahead = inbox.passed_over, inbox.far_ahead
        stays = set(self._neighbours) - self.absent - gone - ahead
        return gone | ahead if stays else gone


def used(consumed: Iterable[Release], sender: int, own_last: int | None) -> Used:
    """The ``used`` field: what was consumed, in order, then the sender's own previous index."""
    pairs = [(release.sender, release.index) for release in consumed]
    if own_last is not None:
        pairs.append((sender, own_last))
    return tuple(pairs)
