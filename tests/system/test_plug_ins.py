"""The examples of docs/plug-ins.md work as they are written."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from coordinator_free.agents.registry import algorithm
from coordinator_free.privacy.accounting import binomial, calibrate, total
from coordinator_free.privacy.families import NORMS, from_description, mechanism
from coordinator_free.privacy.mechanism import GRID, MechanismError
from coordinator_free.privacy.noise import Stream
from coordinator_free.problem.losses import Loss, loss
from node.audit.verify import verify
from node.configuration.reading import from_table, load
from node.configuration.refusals import ConfigurationError
from node.configuration.sections import TOPOLOGIES
from node.dealing.folder import deal_run
from node.folder.spending import spent
from node.worlds.twin import run_twin
from tests.helpers.places import ROOT
from topology import families
from topology.network import Network

PAGE = (ROOT / "docs" / "plug-ins.md").read_text(encoding="utf-8")
FILES = {code.split()[1]: code for _, code in re.findall(r"```(python|toml)\n(# \S+.*?)```", PAGE, re.DOTALL)}
MODULES = tuple(name.removesuffix(".py") for name in FILES if name.endswith(".py"))


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the page's files, from which their modules are imported."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace("examples/data", str(ROOT / "examples" / "data")), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in MODULES:
        sys.modules.pop(name, None)


def test_the_page_has_four_modules_and_their_configuration() -> None:
    assert sorted(FILES) == ["mine.toml", "my_agent.py", "my_loss.py", "my_mechanism.py", "my_topology.py"]


def test_all_together_run_are_charged_and_verified(own: Path) -> None:
    configuration = load("mine.toml", ["clock.updates=8"])
    deal_run(configuration, own / "run")
    run_twin(own / "run")
    found = verify(own / "run")
    assert found.ok
    assert found.releases == 65 * 8
    spending = spent(own / "run")
    assert ((spending.epsilons > 0.999 * 2.0) & (spending.epsilons <= 2.0)).all()
    first = (own / "run" / "agents" / "agent-0007" / "ledger.jsonl").read_text().splitlines()[2]
    assert '"my_mechanism:MaxNorm"' in first, "after the header and the start of the process, the first charge"


def test_the_loss_keeps_its_promises(own: Path) -> None:
    huber = loss("my_loss:HUBER")
    at, y, step = np.linspace(-3.0, 3.0, 601), np.full(601, 0.0031), 1e-6
    slope = (huber.value(at + step, y) - huber.value(at - step, y)) / (2 * step)
    assert np.allclose(huber.slope(at, y), slope, atol=1e-5)
    assert np.abs(huber.slope(at, y)).max() <= huber.slope_bound
    smooth = np.abs(np.abs(at - y) - 1.0) > 1e-3
    bend = (huber.slope(at + step, y) - huber.slope(at - step, y)) / (2 * step)
    assert np.allclose(huber.curvature(at, y)[smooth], bend[smooth], atol=1e-4)
    assert huber.curvature(at, y).max() <= huber.curvature_bound


def test_the_topology_is_a_network(own: Path) -> None:
    network = families.build("my_topology:two_rings", 17, 3)
    assert isinstance(network, Network)
    assert network.agents == 17
    assert sorted(set(network.degree_counts.tolist())) == [2, 3]


def test_the_mechanism_follows_its_law_and_is_counted_as_pure(own: Path) -> None:
    made = mechanism("my_mechanism:MaxNorm", 0.5, 4.0, 3)
    assert made.sensitivity == pytest.approx(0.5 + np.sqrt(3) * GRID, rel=1e-12)
    assert NORMS["my_mechanism:MaxNorm"] == "l2"
    assert from_description(json.loads(json.dumps(made.describe()))) == made
    assert total([made] * 4, 0.0).epsilon == pytest.approx(1.0)
    assert total([made] * 9, 1e-3).epsilon == pytest.approx(min(binomial(0.25, 9, 1e-3), 9 * 0.25), rel=1e-9)
    drawn = np.array([made.noise(3, Stream(bytes(32), index)) for index in range(4000)])
    # A halved scale is 30 standard deviations off; a correct one fails once in ten thousand seeds.
    assert stats.kstest(np.abs(drawn).max(axis=1) / made.scale, stats.gamma(3).cdf).pvalue > 1e-4
    point = np.array([0.3, -0.1, 0.2])
    assert made.log_density(point) - made.log_density(point + 0.5) <= 0.25 + 1e-12
    for wrong in ({"scale": -1.0, "more": 1}, {"name": "my_mechanism:Nothing"}, {"name": "no_such_module:X"}):
        with pytest.raises(MechanismError):
            from_description(made.describe() | wrong)
    multipliers = calibrate("my_mechanism:MaxNorm", 20, 1.0, 1e-5, dimension=3)
    told = total([mechanism("my_mechanism:MaxNorm", 1.0, m, 3) for m in multipliers], 1e-5).epsilon
    assert 0.999 <= told <= 1.0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"privacy": {"mechanism": "no_such_module:X"}}, ["privacy.mechanism", "no_such_module"]),
        ({"privacy": {"mechanism": "my_loss:Huber"}}, ["privacy.mechanism", "my_loss:HUBER", "same"]),
        ({"privacy": {"mechanism": "laplase"}}, ["privacy.mechanism", "laplase", "did you mean laplace", "Class"]),
        ({"learning": {"algorithm": "my_agent:Nothing"}}, ["learning.algorithm", "Nothing"]),
        ({"learning": {"algorithm": "my_loss:Huber"}}, ["learning.algorithm", "lacks", "wake"]),
        ({"learning": {"loss": "my_loss:Huber"}}, ["learning.loss", "not an instance"]),
        ({"topology": {"kind": "rign"}}, ["topology.kind", "rign", "did you mean ring", "package.module:function"]),
    ],
)
def test_what_is_wrong_is_one_line_before_anything_runs(
    own: Path, settings: dict[str, dict[str, Any]], words: list[str]
) -> None:
    table: dict[str, Any] = {
        "run": {"seed": 1},
        "data": {"source": "breast-cancer", "agents": 4},
        "topology": {"kind": "ring"},
        "learning": {"mu": 1.0},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-3, "clip": 1.0},
    }
    for section, values in settings.items():
        table[section] = table[section] | values
    with pytest.raises(ConfigurationError) as caught:
        from_table(table)
    line = str(caught.value)
    assert "\n" not in line
    for word in words:
        assert word in line


def test_a_mechanism_whose_epsilon_is_not_what_is_counted_is_refused(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = importlib.import_module("my_mechanism").MaxNorm
    monkeypatch.setattr(kind, "multiplier", property(lambda self: 2.0 * self.scale / self.sensitivity))
    with pytest.raises(MechanismError, match="multiplier is 8, not scale / sensitivity = 4"):
        mechanism("my_mechanism:MaxNorm", 0.5, 4.0, 3)
    monkeypatch.setattr(kind, "norm", "linf")
    with pytest.raises(MechanismError, match="norm is 'linf', not l1 or l2"):
        mechanism("my_mechanism:MaxNorm", 0.5, 4.0, 3)


def test_the_configuration_knows_every_family() -> None:
    assert set(families.KINDS) <= set(TOPOLOGIES)


def test_known_names_are_what_they_were(own: Path) -> None:
    assert isinstance(loss("my_loss:HUBER"), Loss)
    assert algorithm("my_agent:GradientMixing").name == "my_agent:GradientMixing"
    assert list(NORMS) == ["laplace", "gaussian", "gamma-norm"]
    assert NORMS.get("none") is None


@pytest.mark.processes
def test_processes_find_them_here_and_nothing_here_stands_in_for_other_modules(own: Path) -> None:
    for name in ("random", "topology", "coordinator_free", "numpy"):
        (own / f"{name}.py").write_text("raise RuntimeError('a module of this folder was taken for another')\n")
    (own / "node").mkdir()
    (own / "node" / "__init__.py").write_text("raise RuntimeError('a folder here was taken for the program')\n")
    command = Path(sys.executable).with_name("sottovoce")
    settings = ["data.source=breast-cancer", f"data.path={ROOT / 'examples/data/breast-cancer'}", "data.agents=8"]
    sets = [f"--set={setting}" for setting in (*settings, "clock.updates=10", "network.deadline=120")]
    done = subprocess.run(
        [command, "run", "mine.toml", "--out", "run", "--json", *sets], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["algorithm"] == "my_agent:GradientMixing"
    assert results["capture"]["complete"]
    assert results["epsilon"]["charged_max"] <= 2.0
