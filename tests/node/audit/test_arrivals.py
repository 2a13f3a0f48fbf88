"""Records that arrive during a run: it is executed again, and each record is audited by its own charges."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator_free.agents.personal.arriving import Arriving, Stage
from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from node.audit.verify import verify
from node.configuration.reading import from_table
from node.dealing.folder import deal_run
from node.worlds.twin import run_twin
from tests.helpers.audited_runs import audited
from tests.helpers.known_noise import with_known_noise

SECRET = b"arrivals" * 4
USES = 6


def run(folder: Path, **data: object) -> Path:
    table = {
        "run": {"seed": 5},
        "data": {"source": "synthetic", "agents": 3, "dimension": 3, "records": [12, 12], "arriving": 0.5, **data},
        "topology": {"kind": "ring"},
        "learning": {"mu": 2.5, "smoothness": 1.0},
        "clock": {"updates": 16},
        "privacy": {"mechanism": "gaussian", "epsilon": 3.0, "delta": 1e-3, "clip": 1.0, "uses": USES},
    }
    deal_run(from_table(table), folder)
    with_known_noise(folder)
    run_twin(folder)
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("arrivals") / "run")


def test_it_is_executed_again_bit_for_bit(finished: Path) -> None:
    assert verify(finished).ok


def test_a_record_that_arrives_late_is_judged_by_what_it_was_charged(finished: Path) -> None:
    whole = audited(finished, trials=300, agents=[0], secret=SECRET)
    assert whole.findings == ()
    assert whole.agents[0].accounted == pytest.approx(3.0, rel=1e-3)
    learning = agent_0_of(finished)
    last = max(range(12), key=lambda record: learning.windows[record])
    late = audited(finished, trials=300, agents=[0], record=last, secret=SECRET).agents[0]
    assert late.accounted == whole.agents[0].accounted
    assert late.accounted_record is not None
    assert late.accounted_record < 2.0
    assert late.attacked_if_charged is not None
    assert 0.0 < late.attacked_if_charged < late.accounted_record
    assert late.groups == ()
    assert f"record {last} was charged" in late.why


def test_a_spent_record_that_is_still_used_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run and its audit share the fault."""
    honest = Arriving.at

    def forgetful(self: Arriving, update: int) -> Stage:
        return honest(self, min(update, USES - 1))

    monkeypatch.setattr(Arriving, "at", forgetful)
    found = audited(run(tmp_path / "run"), trials=20, agents=[0], secret=SECRET)
    assert any(f"release {USES}: record" in line and "not charged to that record" in line for line in found.findings)


def test_a_record_that_is_used_before_it_arrives_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Arriving, "at", lambda self, update: Stage(self._whole.problem, 1.0))
    found = audited(run(tmp_path / "run"), trials=20, agents=[0], secret=SECRET)
    assert any("release 0: record" in line and "not charged to that record" in line for line in found.findings)


def test_charging_a_late_record_for_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The windows say that late records are in no release: those that they are in all the same name them."""
    honest = CoordinateDescent.windows.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(
        CoordinateDescent,
        "windows",
        property(lambda self: [(0, USES - 1) if first == 0 else (15, 15) for first, _ in honest(self)]),
    )
    found = audited(run(tmp_path / "run"), trials=20, agents=[0], secret=SECRET)
    assert any("not charged to that record" in line for line in found.findings)


def agent_0_of(folder: Path) -> CoordinateDescent:
    from node.folder.run import read_run
    from node.folder.shard import setting

    found = read_run(folder)
    return CoordinateDescent(setting(found.rows[0], found.public[0], bytes(32)))
