"""Records that arrive during a run: when they do, what their budget buys, and what is noted of each of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator_free.privacy.accounting import total
from node.audit.verify import verify
from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.dealing.arrivals import arrivals
from node.dealing.bought import bought
from node.dealing.folder import deal_run
from node.dealing.preparation import prepare
from node.folder.ledger import LedgerFile
from node.folder.plain import plain
from node.folder.registry import Registry, mechanisms_of, settle
from node.folder.run import read_run
from node.folder.spending import spent
from node.places import agent_folder
from node.worlds.twin import run_twin
from tests.helpers import tables
from tests.helpers.documents import conforms
from tests.helpers.known_noise import with_known_noise

UPDATES, USES = 10, 4


def table(**changes: dict[str, Any]) -> dict[str, Any]:
    own: dict[str, dict[str, Any]] = {
        "run": {"seed": 1},
        "data": {"arriving": 0.5},
        "clock": {"updates": UPDATES},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-4, "clip": 1.0, "uses": USES},
    }
    return tables.public(**{key: {**own.get(key, {}), **changes.get(key, {})} for key in {*own, *changes}})


def test_the_share_arrives_one_by_one_evenly_over_the_updates() -> None:
    found = arrivals(from_table(table()), 1, 0, 20)
    first = sorted(found["arrivals"])
    assert first[:10] == [0] * 10
    assert first[10:] == [1, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert found["uses"] == USES
    assert arrivals(from_table(table(data={"arriving": 0.9})), 1, 0, 1) == {"arrivals": [0], "uses": USES}
    assert arrivals(from_table(table(data={"arriving": None}, privacy={"uses": None})), 1, 0, 20) == {}


def test_arrivals_follow_from_public_numbers_alone() -> None:
    """Another seed draws others; the values of the records are no argument."""
    configuration = from_table(table())
    assert arrivals(configuration, 1, 0, 20) == arrivals(configuration, 1, 0, 20)
    assert arrivals(configuration, 1, 0, 20) != arrivals(configuration, 2, 0, 20)
    assert arrivals(configuration, 1, 0, 20) != arrivals(configuration, 1, 1, 20)


def test_the_budget_of_a_record_is_divided_among_the_releases_that_use_it() -> None:
    with_arrivals = prepare(from_table(table()))
    few = prepare(from_table(table(data={"arriving": None}, privacy={"uses": None}, clock={"updates": USES})))
    assert with_arrivals.multipliers == pytest.approx(np.full(UPDATES, few.multipliers[0]))


def test_fewer_records_may_bend_more_and_the_step_allows_for_it() -> None:
    public = {"privacy": {"mechanism": None, "epsilon": None, "delta": None, "clip": None, "uses": None}}
    whole = prepare(from_table(table(**public, data={"arriving": None})))
    some = prepare(from_table(table(**public)))
    assert (some.smoothness > whole.smoothness).any()
    assert (some.smoothness >= whole.smoothness).all()


def test_budget_shows_the_record_that_is_used_most_and_the_last_to_arrive() -> None:
    found = bought(from_table(table()))
    conforms({"version": 1, **plain(found)} if "version" not in plain(found) else plain(found), "budget")
    assert found.total.epsilon == pytest.approx(1.0, rel=1e-3)
    assert found.charged_releases == UPDATES
    assert found.groups == []
    assert found.arrivals is not None
    assert found.arrivals.uses == USES
    assert found.arrivals.epsilon_first == pytest.approx(1.0, rel=1e-3)
    assert found.arrivals.epsilon_last < 0.6


def timed(folder: Path, last: int = UPDATES - 1, **changes: dict[str, Any]) -> dict[str, Any]:
    """Two agents whose records arrive as a column says: those of "late" from update 2 on, the last one at ``last``."""
    when = [0, 0, 3, 3, 9, 9, 2, 5, 5, last]
    rows = [f"{'soon' if i < 6 else 'late'},{i / 10},{'yes' if i % 3 else 'no'},{t}" for i, t in enumerate(when)]
    (folder / "timed.csv").write_text("\n".join(["who,age,ill,update", *rows, ""]))
    source = {"source": "csv", "path": str(folder / "timed.csv"), "column": "who", "held_out": 0.0}
    labels = {"label": "ill", "positive": "yes", "negative": "no", "bounds": {"age": [0.0, 1.0]}}
    own = {**table(topology={"kind": "path"}), "data": {**source, **labels, "arriving_column": "update"}}
    return {key: {**own.get(key, {}), **changes.get(key, {})} for key in {*own, *changes}}


def test_a_column_decides_when_records_arrive_and_each_has_its_budget(tmp_path: Path) -> None:
    made = prepare(from_table(timed(tmp_path)))
    assert [made.public(agent).learning["arrivals"] for agent in range(2)] == [[2, 5, 5, 9], [0, 0, 3, 3, 9, 9]]
    assert made.windows(0) == [(2, 5), (5, 8), (5, 8), (9, 9)]
    found = bought(from_table(timed(tmp_path))).arrivals
    assert found is not None
    assert (found.from_the_start, found.arriving, found.uses) == (2, 8, USES)
    assert found.epsilon_first == pytest.approx(1.0, rel=1e-3)
    assert found.epsilon_last < 0.6


def test_an_agent_may_begin_without_records_and_is_charged_nothing_until_one_arrives(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    deal_run(from_table(timed(tmp_path)), folder)
    with_known_noise(folder)
    run_twin(folder)
    assert verify(folder).ok
    with LedgerFile.read(agent_folder(folder, 0) / "ledger.jsonl", None) as ledger:
        charged = [charge.mechanism for charge in ledger.charges() for _ in range(charge.count)]
    assert [mechanism is None for mechanism in charged] == [True] * 2 + [False] * (UPDATES - 2)
    assert max(spent(folder).epsilons) == pytest.approx(1.0, rel=1e-3)


def test_a_record_after_the_last_update_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"row 10, column 'update': .* update 10 .* 0 to 9 with clock"):
        deal_run(from_table(timed(tmp_path, last=UPDATES)), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigurationError, match=r"data\.arriving_column = 'update': .*coordinate-descent"):
        from_table(timed(tmp_path, learning={"algorithm": "warm-start"}))


def charge(folder: Path, releases: int) -> None:
    """Charge releases of every agent, as their processes would."""
    run = read_run(folder)
    for agent, rows in enumerate(run.rows):
        with LedgerFile.open(agent_folder(folder, agent) / "ledger.jsonl", rows.digest()) as ledger:
            plan = ledger.ledger.plan
            ledger.admit(run.run.hex(), plan.mechanisms(), plan.windows)
            for index in range(releases):
                ledger.reserve(index, index, plan.alike(index)[1], extra={"run": run.run.hex()})


def test_a_ledger_holds_each_record_to_its_budget_over_releases_that_cost_more_together(tmp_path: Path) -> None:
    deal_run(from_table(table()), tmp_path / "run")
    charge(tmp_path / "run", UPDATES)
    line = (agent_folder(tmp_path / "run", 0) / "ledger.jsonl").read_text().splitlines()[0]
    assert json.loads(line[:-9])["windows"][0] == [0, USES - 1]
    with LedgerFile.read(agent_folder(tmp_path / "run", 0) / "ledger.jsonl", None) as ledger:
        everything = [charge.mechanism for charge in ledger.charges() for _ in range(charge.count)]
        assert total(everything, 1e-4).epsilon > 1.5
    assert spent(tmp_path / "run").epsilons == pytest.approx(1.0, rel=1e-3)


def test_the_registry_holds_what_each_record_spent(tmp_path: Path) -> None:
    """Of a run that ended after six releases: the first records are spent, later ones have some of the budget left."""
    rows = [f"{i},{(7 * i % 40) / 40:.4f},{'yes' if i % 3 else 'no'}" for i in range(40)]
    file = tmp_path / "people.csv"
    file.write_text("\n".join(["id,age,ill", *rows, ""]))
    own = {
        **table(topology={"kind": "path"}),
        "data": {
            "source": "csv",
            "path": str(file),
            "label": "ill",
            "positive": "yes",
            "drop": ["id"],
            "bounds": {"age": [0.0, 1.0]},
            "agents": 2,
            "arriving": 0.5,
            "held_out": 0.0,
        },
    }
    deal_run(from_table(own), tmp_path / "run")
    registry = Registry(tmp_path / "people.csv.spent")
    [reserved] = registry.entries()
    charge(tmp_path / "run", 6)
    settle(tmp_path / "run")
    [entry] = registry.entries()
    assert entry.settled
    assert sum(len(part.records) for part in entry.parts) == 40
    for before, part in zip(reserved.parts, entry.parts, strict=True):
        assert part.window is not None
        first, last = part.window
        assert before.costs is not None
        assert part.costs is not None
        assert before.costs.total() == last - first + 1
        assert part.costs.total() == max(0, min(last, 5) - first + 1)
        assert total(mechanisms_of(before.costs), 1e-4).epsilon <= 1.0 + 1e-6
    assert {part.agent for part in entry.parts} == {0, 1}
    [run] = json.loads((deal_again(tmp_path, own) / "dealt.json").read_text())["earlier_runs"]
    assert run["epsilon_max"] == pytest.approx(1.0, rel=1e-3)
    assert run["epsilon_mean"] < 0.9


def deal_again(folder: Path, sections: dict[str, Any]) -> Path:
    deal_run(from_table(sections), folder / "again")
    return folder / "again"
