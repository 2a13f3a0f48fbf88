"""A batch script of Slurm, and what its tasks decide from the environment."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.worlds.slurm import batch_script
from node.worlds.slurm_task import Place
from tests.helpers.clusters import table

TASK = {"SLURM_PROCID": "1", "SLURM_NTASKS": "3", "SLURM_JOB_ID": "17", "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}


def script(folder: Path, nodes: int = 3, name: str = "run.toml", **changes: Any) -> str:
    return batch_script(from_table(table(**changes)), folder / name, folder / "my runs" / "one", nodes, ["run.seed=7"])


def test_the_script_deals_starts_one_task_a_node_and_collects(tmp_path: Path) -> None:
    """The commands are executed with stand-ins that print their arguments."""
    text = script(tmp_path, name="it's mine.toml")
    assert "#SBATCH --nodes=3\n#SBATCH --ntasks-per-node=1\n#SBATCH --requeue\n" in text
    text = text.replace("python=", "python=echo  # ", 1)
    (tmp_path / "srun").write_text('#!/bin/bash\necho srun "$@"\n')
    (tmp_path / "srun").chmod(0o755)
    for array, suffix in (({}, ""), ({"SLURM_ARRAY_TASK_ID": "4"}, "-4")):
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, env=path | array, check=True)
        run = f"{tmp_path}/my runs/one{suffix}"
        assert done.stdout.splitlines() == [
            f"-m node.cli deal {tmp_path}/it's mine.toml --set run.seed=7 --out {run} --parts {run}.parts",
            f"srun --kill-on-bad-exit=0 echo -m node.worlds.slurm_task --run {run} --parts {run}.parts",
            f"-m node.cli collect {run} --parts {run}.parts",
        ]


@pytest.mark.parametrize(
    ("nodes", "changes", "words"),
    [
        (0, {}, "--nodes 0: accepted is 1 or more"),
        (2, {"network": {"transport": "ipc"}}, "network.transport = 'ipc': accepted is 'tcp'"),
        (
            2,
            {"event": [{"at": "1 s", "fault": "kill", "target": [1]}]},
            "1 events; accepted is a configuration without",
        ),
    ],
)
def test_what_tasks_cannot_carry_out_is_refused(
    tmp_path: Path, nodes: int, changes: dict[str, Any], words: str
) -> None:
    sections = table()
    for name, section in changes.items():
        sections[name] = section if name == "event" else sections.get(name, {}) | section
    with pytest.raises(ConfigurationError, match=words.replace("(", r"\(")):
        batch_script(from_table(sections), tmp_path / "c.toml", tmp_path / "run", nodes)


@pytest.mark.parametrize("agents", [1, 2, 7, 100])
@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_the_shares_are_all_agents_once(agents: int, tasks: int) -> None:
    shares = [Place(rank, tasks, "1-0", "127.0.0.1").share(agents) for rank in range(tasks)]
    assert [agent for share in shares for agent in share] == list(range(agents))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_task_knows_its_place() -> None:
    assert Place.of(TASK) == Place(1, 3, "17-0", "127.0.0.1")
    assert Place.of(TASK | {"SLURM_RESTART_COUNT": "2"}).start == "17-2"
    for missing in TASK:
        with pytest.raises(ConfigurationError, match="not a task of Slurm"):
            Place.of({name: value for name, value in TASK.items() if name != missing})
