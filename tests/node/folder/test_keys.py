"""Public keys: an agent takes those of its neighbours from the file of all, and refuses what is damaged among them."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.folder.keys import PUBLIC_KEYS, KeysError, make_keys, read_keys
from node.places import agent_folder


@pytest.fixture
def made(tmp_path: Path) -> dict[str, str]:
    for agent in range(3):
        agent_folder(tmp_path, agent).mkdir(parents=True)
    return make_keys(tmp_path, [0, 1, 2, None])


def test_an_agent_takes_the_keys_of_its_neighbours_alone(tmp_path: Path, made: dict[str, str]) -> None:
    keys = read_keys(tmp_path, 0, [1], eavesdropper=True)
    assert keys.agents == {1: made["agent-0001"].encode()}
    assert keys.eavesdropper == made["eavesdropper"].encode()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("agent-0001 ", "agent-0001 x"), "line 2: accepted is a name, a space and 40"),
        (lambda text: text + text.splitlines()[1] + "\n", "line 5: accepted is"),
        (lambda text: text.replace("agent-0001", "agent-0009"), "no public key of agent-0001"),
        (lambda text: text.replace("agent-0002", "Ä"), "cannot be read"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, made: dict[str, str], change: object, words: str) -> None:
    path = tmp_path / PUBLIC_KEYS
    path.write_text(change(path.read_text()), encoding="utf-8")  # type: ignore[operator]
    with pytest.raises(KeysError, match=words):
        read_keys(tmp_path, 0, [1])


def test_a_damaged_key_of_an_agent_that_is_no_neighbour_stops_nobody(tmp_path: Path, made: dict[str, str]) -> None:
    path = tmp_path / PUBLIC_KEYS
    path.write_text(path.read_text().replace("agent-0002 ", "agent-0002 x"))
    assert read_keys(tmp_path, 0, [1]).agents == {1: made["agent-0001"].encode()}
    with pytest.raises(KeysError):
        read_keys(tmp_path, 0, [2])
