"""The face of the package: lazy, whole, and the same as what the commands do."""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import zmq

import sottovoce
from coordinator_free.release import Release as RealRelease
from node.wire import encode
from tests.helpers.places import ROOT

RING = {
    "run": {"seed": 3},
    "data": {"source": "synthetic", "agents": 6, "dimension": 3, "records": [12, 20]},
    "topology": {"kind": "ring"},
    "learning": {"mu": 1.0, "smoothness": 1.0, "finish": True, "finish_mu": 2.0},
    "clock": {"rate": 50.0, "updates": 8},
    "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-3, "clip": 1.0},
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> sottovoce.Run:
    return sottovoce.run(RING, tmp_path_factory.mktemp("face") / "ring", world="twin")


def test_importing_it_loads_nothing_else() -> None:
    code = (
        "import sys, sottovoce; print([m for m in ('numpy', 'scipy', 'pydantic', 'zmq', 'node') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_is_seen_by_a_type_checker() -> None:
    for name in sottovoce.__all__:
        assert getattr(sottovoce, name) is not None
    assert set(sottovoce.__all__) <= set(dir(sottovoce))
    tree = ast.parse(Path(str(sottovoce.__file__)).read_text())
    typed = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert set(sottovoce.__all__) - {"__version__"} <= typed
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sottovoce.nothing  # noqa: B018


def test_a_configuration_is_built_from_sections_and_refused_in_one_line() -> None:
    made = sottovoce.configure(name="ring", **RING)
    assert (made.run.name, made.clock.updates) == ("ring", 8)
    with pytest.raises(sottovoce.ConfigurationError, match=r"clock\.updates = 0"):
        sottovoce.configure(**{**RING, "clock": {"updates": 0}})
    example = sottovoce.load(ROOT / "examples" / "schools.toml", ["privacy.epsilon=1"])
    assert example.privacy.epsilon == 1


@pytest.mark.processes
def test_a_run_gives_its_models_releases_ledgers_and_results(ran: sottovoce.Run) -> None:
    assert ran.agents == 6
    assert ran.failures == []
    assert ran.models().shape == (6, 3)
    assert ran.model(2).tolist() == ran.models()[2].tolist()
    assert ran.finish(2).shape == (3,)
    releases = list(ran.releases())
    assert len(releases) == 6 * 8
    last = {release.sender: release for release in releases}
    assert last[4].vector.tolist() == ran.model(4).tolist()
    assert sum(charge.count for charge in ran.ledger(0)) == 8
    assert ran.spent.epsilons.max() == pytest.approx(2.0, rel=1e-3)
    assert ran.results.epsilon.budget == 2.0
    assert ran.configuration.privacy.clip == 1.0
    with pytest.raises(sottovoce.RunFolderError, match="agents 0 to 5"):
        ran.model(6)
    with pytest.raises(sottovoce.RunFolderError, match="is not a run's folder"):
        sottovoce.open_run(ran.folder.parent)


@pytest.mark.processes
def test_tables_hold_what_the_log_and_the_ledgers_hold(ran: sottovoce.Run) -> None:
    table = ran.releases_table()
    assert table.num_rows == 6 * 8
    assert set(table["kind"].to_pylist()) == {"release"}
    first = next(iter(ran.releases()))
    assert table["vector"][0].as_py() == first.vector.tolist()
    whole = sottovoce.log_table(ran.folder / "traffic.mcap")
    assert whole.num_rows == len(list(sottovoce.read_log(ran.folder / "traffic.mcap"))) > 6 * 8
    charges = ran.ledger_table()
    assert charges.num_rows == sum(len(ran.ledger(agent)) for agent in range(6))
    assert set(charges["mechanism"].to_pylist()) == {"gaussian"}


@pytest.mark.processes
def test_it_shows_itself(ran: sottovoce.Run) -> None:
    """The page for a notebook holds the rows of the table that a terminal shows."""
    assert repr(ran).startswith("<Run 'run': 6 agents, coordinate-descent, ")
    page, table = ran._repr_html_(), str(ran)
    heads = [line for line in table.splitlines() if line.startswith("accuracy  ")]
    assert len(heads) == 1
    for row in ("zero model", "alone", "together", "together, free finish *", "pooled"):
        (line,) = [line for line in table.splitlines() if line.startswith(row + "  ")]
        cells = [row, *line.removeprefix(row).split()]
        assert "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>" in page
    assert page.count("<tr>") == 1 + 5
    assert "<b>privacy</b> epsilon 2 charged" in page


@pytest.mark.processes
def test_a_run_is_verified_and_audited(ran: sottovoce.Run) -> None:
    verdict = ran.verify()
    assert verdict.ok
    assert verdict.releases == 6 * 8
    audit = ran.audit(trials=50)
    assert audit.ok
    assert len(audit.agents) == 6


@pytest.mark.parametrize("family", ["gaussian", "laplace", "gamma-norm"])
def test_a_budget_is_bought_and_never_exceeded(family: str) -> None:
    bought = sottovoce.calibrate(family, 20, 1.5, 1e-5, dimension=9)
    assert bought.multipliers.shape == (20,)
    assert 1.5 * (1 - 1e-4) <= bought.epsilon <= 1.5
    halved = [sottovoce.Gaussian(1.0, float(m) / 2) for m in bought.multipliers]
    if family == "gaussian":
        assert sottovoce.epsilon(halved, 1e-5) > 2 * bought.epsilon
        assert bought.rho == pytest.approx(bought.mu**2 / 2)


async def test_frames_are_received_as_they_arrive(tmp_path: Path) -> None:
    run = bytes(16)
    endpoint = f"ipc://{tmp_path}/agent"
    context = zmq.Context()
    socket = context.socket(zmq.XPUB)
    socket.linger = 0
    try:
        socket.bind(endpoint)
        sent = RealRelease(sender=3, index=0, vector=np.array([1.0, 2.0]), used=())
        frames = sottovoce.listen([endpoint])
        following = asyncio.ensure_future(anext(frames))
        while not socket.poll(0):
            await asyncio.sleep(0.01)
        socket.send_multipart(encode(run, sent))
        heard = await following
        assert isinstance(heard.message, sottovoce.Release)
        assert heard.message.vector.tolist() == [1.0, 2.0]
        assert abs(heard.time_ns - time.time_ns()) < 60e9
        following = asyncio.ensure_future(anext(frames))
        socket.send_multipart([b"x", b"y"])
        assert (await following).refused == "parts"
        await frames.aclose()
    finally:
        socket.close(0)
        context.term()


async def test_listening_at_an_address_that_cannot_be_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot listen at 'tcp://nowhere'"):
        await anext(sottovoce.listen(["tcp://nowhere"]))


@pytest.mark.processes
async def test_the_twin_runs_beside_other_tasks(tmp_path: Path) -> None:
    run = await sottovoce.run_async(RING, tmp_path / "ring", world="twin")
    assert run.failures == []
