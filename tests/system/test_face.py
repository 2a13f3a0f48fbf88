"""The face over real processes: progress as it happens, and a run that is broken off leaves no process behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import sottovoce
from tests.helpers.leaks import processes_of

pytestmark = pytest.mark.processes
RING = {
    "run": {"seed": 3},
    "data": {"source": "synthetic", "agents": 5, "dimension": 3, "records": [12, 20]},
    "topology": {"kind": "ring"},
    "learning": {"mu": 1.0},
    "clock": {"rate": 20.0, "updates": 40},
}


async def test_a_run_is_watched_to_its_end(tmp_path: Path) -> None:
    moments = [moment async for moment in sottovoce.watch(RING, tmp_path / "ring")]
    *progress, run = moments
    assert isinstance(run, sottovoce.Run)
    assert run.failures == []
    assert progress, "the run takes two seconds at least"
    sent = [moment.sent for moment in progress if isinstance(moment, sottovoce.Progress)]
    assert sent == sorted(sent)
    assert sent[-1] == 5 * 40
    assert len(list(run.releases())) == 5 * 40


async def test_a_run_that_is_cancelled_ends_its_processes(tmp_path: Path) -> None:
    folder = tmp_path / "ring"
    slow = {**RING, "clock": {"rate": 0.5, "updates": 1000}}
    seen = asyncio.Event()

    def look(moment: sottovoce.Progress) -> None:
        if moment.sent > 0:
            seen.set()

    task = asyncio.ensure_future(sottovoce.run_async(slow, folder, progress=look))
    await seen.wait()
    assert processes_of(folder)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not processes_of(folder)
