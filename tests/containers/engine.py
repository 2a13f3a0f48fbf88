"""The containers on a real Docker engine; `scripts/test-containers` runs this. Figures are printed with ``-s``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.projects import ROOT, Project, final, heard, table

pytestmark = pytest.mark.timeout(900)
MEGABYTE = 1_000_000


def docker(*arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="session", autouse=True)
def image() -> None:
    docker("build", "--quiet", "--build-arg", "WHEELS=wheels", "--tag", "sottovoce", str(ROOT))


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Callable[..., Project]]:
    made: list[Project] = []

    def make(**changes: dict[str, Any]) -> Project:
        made.append(Project(tmp_path, table(**changes)))
        return made[-1]

    yield make
    for one in made:
        one.remove()


def nothing_uncharged(project: Project) -> dict[str, Any]:
    audit = project.audited()
    assert audit["ok"], audit["findings"]
    assert audit["ledger"]["ok"]
    return audit


def test_the_image_is_small_has_no_build_tools_and_no_data() -> None:
    size, base = (
        int(docker("image", "inspect", "-f", "{{.Size}}", name)) for name in ("sottovoce", "python:3.11-slim")
    )
    print(f"image: {(size - base) / MEGABYTE:.0f} MB on top of the base image's {base / MEGABYTE:.0f} MB")
    assert size - base <= 250 * MEGABYTE
    assert docker("image", "inspect", "-f", "{{.Config.User}}", "sottovoce").strip() == "10001:10001"
    look = "! command -v gcc && ! ls -d /opt/sottovoce/lib/python3*/site-packages/pip && ! find / -name 'school*.dat*'"
    docker("run", "--rm", "--entrypoint", "sh", "sottovoce", "-c", f"{look} 2>/dev/null | grep .")


def test_a_run_ends_with_a_folder_that_audit_and_verify_accept(project: Callable[..., Project]) -> None:
    run = project()
    began = time.monotonic()
    done = run.compose("up", "--abort-on-container-failure", "--exit-code-from", "collect", check=False)
    print(f"five agents, up to complete run: {time.monotonic() - began:.1f} s")
    assert done.returncode == 0, done.stdout[-3000:]
    assert "complete: 750 releases of 5 agents" in done.stdout
    verdict = run.verified()
    assert verdict["ok"]
    assert verdict["bit_for_bit"]
    assert verdict["releases"] == 750
    assert nothing_uncharged(run)["capture"]["complete"]
    folder = run.fetched()
    results = json.loads((folder / "results.json").read_text())
    assert results["world"] == "containers"
    assert results["failures"] == []
    assert results["epsilon"]["charged_max"] == pytest.approx(2.0, rel=1e-3)
    again = run.compose("up", check=False)
    assert again.returncode == 0, again.stdout[-3000:]
    after = json.loads((run.fetched() / "results.json").read_text())
    assert after["epsilon"] == results["epsilon"], "starting again what has finished costs nothing"


def test_an_agent_sees_its_own_part_and_nothing_else(project: Callable[..., Project]) -> None:
    run = project()
    run.up()
    run.in_mid_run(3, 1)

    def inside(command: str) -> str:
        return run.compose("exec", "-T", "agent-3", "sh", "-c", command, check=False).stdout.strip()

    assert inside("id -u") == "10001"
    assert inside("cd / && find / -xdev -name '*.npz' -o -name ledger.jsonl 2>/dev/null | grep -v site-packages") == ""
    held = inside("find /own -name '*.npz' -o -name ledger.jsonl | sort")
    assert held.split() == ["/own/agents/agent-0003/ledger.jsonl", "/own/shards/agent-0003.npz"]
    for place in ("/here", "/opt/sottovoce/here", "/runs/here", "/parts/here"):
        assert inside(f"touch {place} 2>/dev/null && echo written") == ""
    services = [f"agent-{i}" for i in range(5)] + ["eavesdropper", "collect", "deal"]
    for service in services:
        found = run.inspected(service)
        assert found["HostConfig"]["ReadonlyRootfs"], service
        assert found["Config"]["User"] == "10001:10001", service
        assert found["HostConfig"]["CapDrop"] == ["ALL"], service
        assert found["HostConfig"]["PortBindings"] in ({}, None), service
        assert found["HostConfig"]["Memory"] > 0, service
    mounts = {mount["Destination"]: mount["Name"] for mount in run.inspected("agent-3")["Mounts"]}
    assert [name.rpartition("_")[2] for name in mounts.values()] == ["agent-3"]
    assert "agent-1" not in json.dumps(run.inspected("eavesdropper")["Mounts"])


def test_a_killed_agent_goes_on_from_its_ledger(project: Callable[..., Project]) -> None:
    run = project()
    run.up()
    run.in_mid_run(2)
    run.compose("kill", "-s", "KILL", "agent-2")
    run.compose("start", "agent-2")
    assert run.ended() == 0
    audit = nothing_uncharged(run)
    verdict = run.verified()
    assert verdict["ok"], verdict
    folder = run.fetched()
    counted = final(folder, 2)
    assert any("restarted: goes on with index" in note for note in counted["notes"])
    assert counted["charged"] == 150
    print(f"killed agent: {counted['notes']}, {counted['sent']} said of 150, missing {audit['capture']['missing']}")


def test_an_eavesdropper_that_was_killed_says_what_it_missed(project: Callable[..., Project]) -> None:
    run = project()
    run.up()
    run.in_mid_run(0)
    run.compose("kill", "-s", "KILL", "eavesdropper")
    before = run.said(0)
    run.wait_until(lambda: run.said(0) >= before + 10)
    run.compose("start", "eavesdropper")
    assert run.ended() == 0, "the agents have finished"
    folder = run.fetched()
    assert (folder / "traffic-2.mcap").exists()
    results = json.loads((folder / "results.json").read_text())
    assert not results["capture"]["complete"]
    assert results["capture"]["missing"]
    assert "incomplete, missing agent" in run.compose("logs", "--no-log-prefix", "eavesdropper").stdout
    verdict = run.verified()
    assert verdict["ok"], verdict
    assert verdict["filled_from_journals"] > 0, "journals hold what nobody heard"
    nothing_uncharged(run)
    print(f"eavesdropper away: {verdict['filled_from_journals']} releases in the journals alone")


def test_pauses_and_cut_links_lose_messages_and_nothing_else(project: Callable[..., Project]) -> None:
    run = project(clock={"rate": 6.0, "updates": 200})
    run.up()
    run.in_mid_run(1, 20)
    run.compose("pause", "agent-1")
    time.sleep(10)
    run.compose("unpause", "agent-1")
    run.in_mid_run(1, 40)
    container, network = run.inspected("agent-3")["Name"].strip("/"), f"sottovoce-{run.name}_air"
    docker("network", "disconnect", network, container)
    time.sleep(5)
    docker("network", "connect", "--alias", "agent-3", network, container)
    assert run.ended() == 0
    verdict = run.verified()
    assert verdict["ok"], verdict
    nothing_uncharged(run)
    folder = run.fetched()
    missing = {agent: final(folder, agent)["missing"] for agent in range(5)}
    assert all(final(folder, agent)["sent"] == 200 for agent in range(5))
    print(f"after pause and cut: missing {missing}, repeats {[final(folder, a)['repeats_received'] for a in range(5)]}")


SYNCHRONOUS: dict[str, dict[str, Any]] = {
    "run": {"simulation": True, "seed": 7},
    "learning": {
        "algorithm": "pvp",
        "pvp_form": "own-release",
        "capacity": 1750.0,
        "regularisation": 0.01,
        "rho": 0.0175,
        "penalty": 0.875,
        "regulariser": "per-node",
        "finish": False,
    },
    "clock": {"updates": 12},
}


def test_a_synchronous_simulation_equals_the_twin_bit_for_bit(project: Callable[..., Project]) -> None:
    run = project(**SYNCHRONOUS)
    run.up()
    assert run.ended() == 0
    twin = ["run", "/configuration/run.toml", "--world", "twin", "--out", "/runs/twin", "--set", "data.path=/data"]
    run.compose("run", "--rm", "--no-deps", "-T", "deal", *twin)
    folder = run.fetched()
    containers, in_twin = heard(folder / "traffic.mcap"), heard(folder.parent / "twin" / "traffic.mcap")
    assert len(containers) == 5 * 12
    assert containers == in_twin
    assert json.loads((folder / "manifest.json").read_text())["simulation"]


def test_twenty_agents(project: Callable[..., Project]) -> None:
    run = project(
        data={"agents": 20},
        topology={"kind": "random-regular", "degree": 4},
        clock={"rate": 2.0, "updates": 40},
        network={"deadline": 180.0},
    )
    began = time.monotonic()
    run.up()
    assert run.ended() == 0
    folder = run.fetched()
    ready = max(final(folder, agent)["ready_s"] for agent in range(20))
    print(f"twenty agents: complete after {time.monotonic() - began:.0f} s, the last ready after {ready:.0f} s")
    assert json.loads((folder / "results.json").read_text())["capture"]["complete"]


def test_a_failing_agent_fails_the_run_and_is_named(project: Callable[..., Project]) -> None:
    run = project(network={"deadline": 20.0})
    run.up()
    run.in_mid_run(2, 1)
    run.compose("down", "--timeout", "1")
    volume = f"sottovoce-{run.name}_agent-2"
    damage = ["-v", f"{volume}:/own", "--entrypoint", "sh", "sottovoce", "-c"]
    docker("run", "--rm", *damage, "rm /own/agents/agent-0002/ledger.jsonl")
    done = run.compose("up", "--abort-on-container-failure", "--exit-code-from", "collect", check=False)
    assert done.returncode != 0
    words = run.compose("logs", "--no-log-prefix", "agent-2").stdout
    assert "agent-0002/ledger.jsonl cannot be opened" in words
    assert "an agent releases nothing without its ledger" in words


def test_a_name_that_does_not_resolve_is_named(project: Callable[..., Project]) -> None:
    run = project(network={"deadline": 10.0})
    run.compose("create")
    run.compose("up", "--detach", "deal")
    run.compose("wait", "deal", check=False)
    run.compose("start", "agent-0", "agent-1", "eavesdropper")
    run.compose("wait", "agent-0", check=False)
    words = run.compose("logs", "--no-log-prefix", "agent-0").stdout
    assert "the name of agent 4, agent-4, does not resolve" in words
    assert run.inspected("agent-0")["State"]["ExitCode"] == 3


def test_the_readme_followed_literally(tmp_path: Path) -> None:
    section = (ROOT / "README.md").read_text().partition("## In containers")[2]
    commands = section.split("```")[1].strip()
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in [
        *listed.stdout.split("\0")[:-1],
        *(str(wheel.relative_to(ROOT)) for wheel in (ROOT / "wheels").glob("*")),
    ]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=tmp_path,
            env={**os.environ, "WHEELS": "wheels"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert "no finding" in done.stdout
        assert (tmp_path / "runs" / "compose" / "results.json").exists()
    finally:
        subprocess.run(["docker", "compose", "down", "--volumes"], cwd=tmp_path, capture_output=True, check=False)
