"""A run that stands still names the agents that it waits for."""

from __future__ import annotations

from dataclasses import replace

from node.folder.endings import Failure
from node.folder.status import State, Status
from node.worlds.progress import Progress, Standstill


def status(sent: int, state: State = State.SPOKEN) -> Status:
    return Status(state, 1, sent, 0, 0, 0)


def test_the_agents_that_are_furthest_behind_are_named_once_nothing_is_new_for_a_while() -> None:
    still = Standstill(3.0)
    assert still.look([status(4), status(3)], 10.0) == (0.0, ())
    assert still.look([status(5), status(3)], 12.0) == (0.0, ())
    assert still.look([status(5), status(3)], 14.9)[1] == ()
    assert still.look([status(5), status(3)], 15.0) == (3.0, (1,))
    assert still.look([status(5), status(4)], 16.0) == (0.0, ())


def test_an_agent_that_is_not_ready_is_behind_all_others_and_one_that_finished_is_not_waited_for() -> None:
    still = Standstill(0.0)
    assert still.look([status(0, State.READY), None, status(0, State.LISTENING)], 0.0)[1] == (1,)
    assert still.look([status(2, State.FINISHED), status(9), status(7, State.FAILED)], 0.0)[1] == (2,)
    assert still.look([status(2, State.FINISHED)] * 2, 0.0)[1] == ()


def test_the_line_names_the_agent_and_how_it_ended() -> None:
    moment = Progress(3, 3, 0, 9, 30, 9, 9, 0.5, 4.0)
    assert moment.waiting() is None
    stands = replace(
        moment,
        failures=(Failure("agent-0001", -9, ("killed by SIGKILL",)),),
        still=3.2,
        waited_for=(1,),
    )
    assert stands.waiting() == "nothing new for 3 s: waiting for agent 1; agent 1: killed by SIGKILL"


def test_an_agent_that_ended_is_named_and_not_its_neighbours_that_got_as_far() -> None:
    failure = Failure("agent-0002", -9, ("killed by SIGKILL",))
    moment = Progress(6, 6, 0, 87, 600, 0, 87, 1.0, 9.0, failures=(failure,), still=3.0, waited_for=(1, 2, 3))
    assert moment.waiting() == "nothing new for 3 s: waiting for agent 2; agent 2: killed by SIGKILL"
