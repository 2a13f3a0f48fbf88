"""The audit from outside: a log and coins show that a run kept its promise, and that a wrong one did not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from coordinator_free.privacy.mechanisms import Gaussian
from node.audit.outsider import Outside, audit_log
from node.audit.report import AuditError
from node.audit.verify import verify
from node.dealing.folder import deal_run
from node.folder.canaries import Coins, read_coins
from node.folder.manifest import RunFolderError, read_manifest
from node.folder.shard import read_rows
from node.places import shard_path
from node.traffic.reader import TrafficLogReader
from node.worlds.twin import run_twin
from tests.helpers.canary_runs import configured, run_with_canaries
from tests.helpers.command import answered
from tests.helpers.documents import conforms
from tests.helpers.known_noise import with_known_noise

OTHER_COINS = "the coins are not those whose digest the log carries"
OTHER_VALUES = "the releases do not hold the values of the canaries that the coins name"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return run_with_canaries(tmp_path_factory.mktemp("canaries") / "run", canaries=96)


@pytest.fixture
def handed_out(run, tmp_path) -> Path:
    """What an outsider gets: a log, and the coins."""
    for name in ("traffic.mcap", "coins.json"):
        shutil.copy(run / name, tmp_path / name)
    return tmp_path


def outside(folder: Path) -> Outside:
    found = audit_log([folder / "traffic.mcap"], folder / "coins.json")
    conforms(found.to_json(), "outside-audit")
    return found


def with_coins(folder: Path, coins: Coins) -> Path:
    (folder / "coins.json").write_text(json.dumps(coins.to_json()))
    return folder


def test_a_log_and_coins_verify_a_correct_run_without_any_shard(handed_out):
    found = outside(handed_out)
    assert found.findings == ()
    assert found.canaries == 96
    assert found.capture.complete
    assert found.accounted == pytest.approx(2.0, abs=1e-6)
    assert 0.8 < found.attained < 1.0 + 1e-6
    assert found.noise.releases == 80
    assert 0.5 < found.attacked_if_charged <= 2.0
    assert found.attacked <= 2.0


def test_the_owner_of_the_same_run_verifies_it_too(run):
    assert verify(run).ok


def test_coins_that_know_nothing_show_nothing(handed_out):
    """At 95% one of 20 bounds may show something: of 16, more than 4 with a probability of 9e-4."""
    true, rng, shown = read_coins(handed_out / "coins.json"), np.random.default_rng(5), 0
    for _ in range(8):
        sides = tuple(bool(side) for side in rng.integers(2, size=len(true.sides)))
        found = outside(with_coins(handed_out, Coins(true.run, true.nonce, sides)))
        assert OTHER_COINS in found.findings
        shown += (found.attacked > 0.0) + (found.attacked_if_charged > 0.0)
    assert shown <= 4


def test_half_of_the_noise_is_found_from_outside(tmp_path, monkeypatch):
    deal_run(configured(canaries=96), tmp_path / "run")
    whole = Gaussian._noise_steps
    with monkeypatch.context() as patch:
        patch.setattr(Gaussian, "_noise_steps", lambda *given: np.rint(0.5 * whole(*given)))
        run_twin(with_known_noise(tmp_path / "run"))
    assert any(line.startswith("noise: scale of all") for line in outside(tmp_path / "run").findings)


def test_values_that_the_coins_do_not_name_are_found(handed_out):
    true = read_coins(handed_out / "coins.json")
    found = outside(with_coins(handed_out, Coins(true.run, true.nonce, tuple(not side for side in true.sides))))
    assert OTHER_VALUES in found.findings
    assert found.attacked_if_charged == 0.0


def test_no_document_of_an_outsider_gives_away_a_shard_or_a_coin(run):
    public = (run / "canaries.json").read_text()
    digests = [read_rows(shard_path(run, agent))[1].shard_digest for agent in range(8)]
    assert all(digest and digest not in public for digest in digests)
    assert (run / "coins.json").stat().st_mode & 0o777 == 0o600
    assert read_coins(run / "coins.json").nonce.hex() not in public


def test_a_run_without_canaries_writes_none(tmp_path):
    deal_run(configured(canaries=0), tmp_path / "run")
    assert not (tmp_path / "run" / "canaries.json").exists()
    assert "audit" not in (tmp_path / "run" / "config.toml").read_text()


def test_coins_differ_from_run_to_run_and_come_from_the_seed_in_a_simulation(tmp_path):
    found = []
    for name, simulated in (("a", False), ("b", False), ("c", True), ("d", True)):
        configuration = configured(canaries=96)
        section = configuration.run.model_copy(update={"simulation": simulated})
        deal_run(configuration.model_copy(update={"run": section}), tmp_path / name)
        found.append(read_coins(tmp_path / name / "coins.json").sides)
    assert found[0] != found[1]
    assert found[2] == found[3]


def test_coins_of_another_run_are_refused(handed_out):
    true = read_coins(handed_out / "coins.json")
    with pytest.raises(AuditError, match="are of run 00000000"):
        outside(with_coins(handed_out, Coins(bytes(16), true.nonce, true.sides)))
    with pytest.raises(AuditError, match="95 coins; the log names 96 canaries"):
        outside(with_coins(handed_out, Coins(true.run, true.nonce, true.sides[1:])))


@pytest.mark.parametrize(
    "text", ["", "[]", '{"version": 2}', '{"version": 1, "run": "00", "nonce": "00", "coins": [1]}']
)
def test_coins_that_are_none_are_one_line(handed_out, text):
    (handed_out / "coins.json").write_text(text)
    with pytest.raises(RunFolderError, match="coins"):
        outside(handed_out)


def test_a_log_without_canaries_is_refused(private, handed_out):
    with pytest.raises(AuditError, match="carries no canaries"):
        audit_log([private / "traffic.mcap"], handed_out / "coins.json")


def test_the_command_shows_it_and_refuses_options_that_it_does_not_use(handed_out):
    log, coins = handed_out / "traffic.mcap", handed_out / "coins.json"
    shown = answered("audit", "--log", log, "--coins", coins)
    assert shown.returncode == 0, shown.stderr
    assert "96, of which" in shown.stdout
    assert "no finding" in shown.stdout
    conforms(json.loads(answered("audit", "--log", log, "--coins", coins, "--json").stdout), "outside-audit")
    for more, words in [
        (["--trials", "9"], "--trials"),
        (["--record", "adversarial"], "--record"),
        ([handed_out], "RUN"),
        (["--confidence", "1"], "--confidence 1"),
    ]:
        refused = answered("audit", "--log", log, "--coins", coins, *more)
        assert refused.returncode == 2
        assert words in refused.stderr
        assert refused.stderr.count("\n") == 1
    assert "go together" in answered("audit", "--coins", coins).stderr


def test_the_log_carries_the_digest_of_the_coins_before_the_first_frame(handed_out):
    """A reader has the attachment before it has read any frame."""
    carried = json.loads(TrafficLogReader(handed_out / "traffic.mcap").attachments["canaries.json"])
    assert carried["commitment"] == read_coins(handed_out / "coins.json").commitment


def test_a_model_is_used_on_rows_without_canaries(run, tmp_path):
    features = [name for name in read_manifest(run).features if not name.startswith("canary")]
    assert 0 < len(features) < len(read_manifest(run).features)
    rows = tmp_path / "rows.csv"
    rows.write_text(",".join(features) + "\n" + ",".join("0.5" for _ in features) + "\n")
    found = answered("predict", run, "--agent", "0", rows)
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.splitlines()) == 2
