"""One run in containers: a configuration, its compose file, and the engine's commands on it."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from node.configuration.reading import from_table, load
from node.traffic.reader import TrafficLogReader
from node.worlds.compose import compose_file
from node.worlds.container_plan import Plan, plan
from tests.helpers.places import ROOT

DATA = ROOT / "examples" / "data" / "breast-cancer"


def table(**changes: dict[str, Any]) -> dict[str, Any]:
    """Five agents on a ring for about fifteen seconds, under a privacy budget."""
    sections: dict[str, dict[str, Any]] = {
        "run": {"name": "run", "seed": 1},
        "data": {"source": "breast-cancer", "path": str(DATA), "agents": 5},
        "topology": {"kind": "ring"},
        "learning": {"loss": "logistic", "mu": 1.0, "smoothness": "bound", "finish": True},
        "clock": {"rate": 10.0, "updates": 150},
        "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-3, "clip": 1.0},
        "network": {"transport": "tcp", "linger": 30.0, "deadline": 90.0},
    }
    if "algorithm" in changes.get("learning", {}):
        sections["learning"], sections["clock"] = {"loss": "logistic"}, {}
    for name, section in changes.items():
        sections[name] = {} if section.get("mechanism") == "none" else sections.get(name, {})
        sections[name] = sections[name] | section
    return sections


def toml(sections: dict[str, Any]) -> str:
    from node.configuration.public import dump

    return dump(from_table(sections))


class Project:
    """The containers of one configuration, in a folder of their own; they and their volumes go with `remove`."""

    def __init__(self, folder: Path, sections: dict[str, Any]) -> None:
        self._folder = folder
        name = f"{sections['run']['name']}-{folder.name}"
        sections = {**sections, "run": {**sections["run"], "name": name}}
        config = folder / "run.toml"
        config.write_text(toml(sections))
        self.plan: Plan = plan(load(config), config, int(sections["data"]["agents"]), folder)
        (folder / "docker-compose.yml").write_text(compose_file(self.plan))
        self.run = f"/runs/{name}"
        self.name = name

    def compose(self, *arguments: str, check: bool = True, timeout: float = 420) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["docker", "compose", "--progress", "quiet", *arguments],
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(
                f"docker compose {' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
            )
        return done

    def up(self) -> None:
        self.compose("up", "--detach")

    def said(self, agent: int) -> int:
        """Releases that an agent has said so far, as its health check tells; -1 where nothing is known."""
        words = self.compose(
            "exec", "-T", f"agent-{agent}", "python", "-m", "node.worlds.health", "/own", check=False
        ).stdout
        return int(words.split(",")[1].split()[0]) if "releases sent" in words else -1

    def wait_until(self, true: Callable[[], bool], seconds: float = 120) -> None:
        """Look again and again; AssertionError with everybody's words when it takes too long."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, self.compose("logs").stdout
            time.sleep(0.3)

    def in_mid_run(self, agent: int, releases: int = 30) -> None:
        """Return when an agent has said so many releases."""
        self.wait_until(lambda: self.said(agent) >= releases)

    def ended(self) -> int:
        """Wait for the run's end; its exit status."""
        return self.compose("wait", "collect", check=False).returncode

    def in_image(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A sottovoce command on the collected run, on the image that made it."""
        return self.compose("run", "--rm", "--no-deps", "-T", "audit", *arguments, check=False)

    def verified(self) -> dict[str, Any]:
        done = self.in_image("verify", self.run, "--json")
        verdict: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == (0 if verdict["ok"] else 1), done.stderr
        return verdict

    def audited(self) -> dict[str, Any]:
        done = self.in_image("audit", self.run, "--json", "--trials", "20")
        audit: dict[str, Any] = json.loads(done.stdout)
        return audit

    def fetched(self) -> Path:
        """The collected run's folder, on this machine."""
        self.compose("cp", "collect:/runs", str(self._folder))
        return self._folder / "runs" / self.name

    def inspected(self, service: str) -> dict[str, Any]:
        identity = self.compose("ps", "--all", "--quiet", service).stdout.strip()
        done = subprocess.run(["docker", "inspect", identity], capture_output=True, text=True, check=True)
        document: dict[str, Any] = json.loads(done.stdout)[0]
        return document

    def remove(self) -> None:
        self.compose("--profile", "audit", "down", "--volumes", "--timeout", "1", check=False)


def final(run: Path, agent: int) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run / "agents" / f"agent-{agent:04d}" / "final.json").read_text())
    return document


def heard(log: Path) -> dict[tuple[int, int], tuple[bytes, bytes]]:
    """(header without the run's id, body) of every release in a log, by (agent, index)."""
    from coordinator_free.release import Release
    from node.wire import decode, encode

    found = {}
    for frame in TrafficLogReader(log):
        message = decode(frame.parts)
        if isinstance(message, Release):
            parts = encode(bytes(16), message)
            found[message.sender, message.index] = (parts[1], parts[2])
    return found
