"""Text names the agent that bears the name, and never another one."""

from __future__ import annotations

import pytest

from node.configuration.agent_names import AgentNameError, have_own_names, numbered

CLINICS = [f"clinic {value}" for value in sorted(f"c{k}" for k in range(1, 13))]
SCHOOLS = ["school 1", "school 2", "school 10"]


def test_names_are_whole_or_the_part_that_is_the_agents_own() -> None:
    assert CLINICS[:3] == ["clinic c1", "clinic c10", "clinic c11"]
    assert numbered(["c2", "clinic c10", "agent-0002", "0"], CLINICS) == [4, 1, 2, 0]
    assert numbered(["mary", "st john"], ["town st john", "town st mary"]) == [1, 0]
    assert numbered(["only"], ["the only"]) == [0]
    assert numbered(["2", "agent 0"], ["agent 0", "agent 1", "agent 2"]) == [2, 0]


def test_a_plain_number_is_a_name_where_agents_are_named_by_numbers() -> None:
    assert numbered(["1", "10"], SCHOOLS) == [0, 2]
    assert numbered(["0", "school 2"], SCHOOLS) == [0, 1]
    with pytest.raises(AgentNameError, match="'1' is the name of 'school 1', but '0' is no name"):
        numbered(["0", "1"], SCHOOLS)


def test_a_name_that_nobody_bears_is_refused() -> None:
    with pytest.raises(AgentNameError, match=r"no agent 'c13'; accepted are 0 to 11; did you mean 'c") as caught:
        numbered(["c1", "c13"], CLINICS)
    assert caught.value.text == "c13"


def test_agents_that_are_numbered_have_no_names_of_their_own() -> None:
    assert not have_own_names(["agent 0", "agent 1"])
    assert have_own_names(["agent 1", "agent 0"])
