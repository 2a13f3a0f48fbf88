"""What an agent counted is read as it was written; what cannot be read is nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from node.folder.counted import Counted, LinkCounted, read_counted, write_counted
from node.places import agent_folder

COUNTED = Counted(
    agent=3,
    code=0,
    reason=None,
    notes=("restarted: goes on with index 4",),
    sent=10,
    last=9,
    received=20,
    repeats_sent=1,
    repeats_received=2,
    late=0,
    missing={"1": (3, 4)},
    not_done=(2,),
    dropped_by_reason={"length": 1},
    bytes=1000,
    charged=10,
    ready_s=0.5,
    pss_kb=7000,
    links={"1": LinkCounted({"dropped": 2}, (1,))},
)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    place = agent_folder(tmp_path, 3)
    place.mkdir(parents=True)
    for counted in (COUNTED, replace(COUNTED, links=None)):
        write_counted(place, counted)
        assert read_counted(tmp_path, 3) == counted
    assert "links" not in json.loads((place / "final.json").read_text())


def test_what_an_earlier_version_wrote_is_read(tmp_path: Path) -> None:
    place = agent_folder(tmp_path, 3)
    place.mkdir(parents=True)
    write_counted(place, COUNTED)
    text = (place / "final.json").read_text()
    earlier = text.replace("repeats_sent", "repeats_said").replace("repeats_received", "repeats_heard")
    assert earlier != text
    (place / "final.json").write_text(earlier)
    assert read_counted(tmp_path, 3) == COUNTED


def test_what_cannot_be_read_is_nothing(tmp_path: Path) -> None:
    place = agent_folder(tmp_path, 3)
    place.mkdir(parents=True)
    assert read_counted(tmp_path, 3) is None
    whole = COUNTED.to_json()
    parts = [json.dumps(whole | {key: value}) for key in ("missing", "links") for value in (1, "ab", [1])]
    for text in ("", "[]", '{"agent": 3}', '{"agent": 3, "notes": 1}', *parts):
        (place / "final.json").write_text(text)
        assert read_counted(tmp_path, 3) is None
