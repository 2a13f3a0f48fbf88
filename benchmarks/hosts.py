"""What a run on three hosts costs each of them: start-up, processes beside the agents, traffic.

    python -m benchmarks.hosts [--agents 100] [--hosts alpha,beta,gamma] [--rate 1] [--updates 50]

The hosts are network namespaces of this machine, so root has to run it. Links have keys. All commands are those of
docs/several-hosts.md: deal, host on each host, collect; then verify and audit. Prints one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from node.folder.counted import read_counted
from node.folder.hosts import HostShare, read_hosts
from node.folder.watch import read_watch
from node.worlds import steps
from node.worlds.orphan import running_zygote
from tests.helpers.namespaces import Namespaces, hosts_in_namespaces

CONFIGURATION = """
[data]
source = "synthetic"
agents = {agents}
dimension = 20
records = [20, 40]
[topology]
kind = "random-regular"
degree = 10
[learning]
loss = "logistic"
mu = 1.0
smoothness = "bound"
[clock]
rate = {rate}
updates = {updates}
[privacy]
mechanism = "gaussian"
epsilon = 1.0
delta = 1e-5
clip = 1.0
[network]
deadline = 3000.0
linger = 600.0
"""
TICKS = os.sysconf("SC_CLK_TCK")


def sottovoce(*words: object, inside: Sequence[str] = ()) -> subprocess.Popen[str]:
    """Start a command."""
    command = [*inside, sys.executable, "-m", "node.cli", *map(str, words)]
    print(shlex.join(command[len(inside) + 3 :]), file=sys.stderr)
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=steps.environment())


def printed(*words: object, accepted: Sequence[int] = (0,)) -> str:
    """What a command prints."""
    process = sottovoce(*words)
    text = process.communicate()[0]
    if process.returncode not in accepted:
        raise SystemExit(f"{words[0]} ended with {process.returncode}")
    return text


def seconds_and_kb(pid: int) -> tuple[float, int]:
    """Processor time of a process, and its proportional memory."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kb = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return (int(fields[11]) + int(fields[12])) / TICKS, kb


def watched(processes: dict[str, subprocess.Popen[str]], parts: Path) -> dict[str, dict[str, Any]]:
    """Of each host, what its own process and its zygote used as last seen, until all have ended."""
    seen: dict[str, dict[str, Any]] = {name: {} for name in processes}
    while any(process.poll() is None for process in processes.values()):
        for name, process in processes.items():
            for what, pid in (("host", process.pid), ("zygote", running_zygote(parts / name))):
                try:
                    if pid is not None and process.poll() is None:
                        seen[name][what] = seconds_and_kb(pid)
                except (OSError, IndexError, StopIteration):
                    continue  # it has just ended
        time.sleep(0.5)
    return seen


def of_host(share: HostShare, part: Path, seen: dict[str, Any]) -> dict[str, Any]:
    """The figures of one host."""
    counted = [one for agent in share.agents if (one := read_counted(part, agent)) is not None]
    watch = read_watch(part)
    assert watch is not None
    return {
        "agents": len(share.agents),
        "ready_s": round(watch.ready_s or 0.0, 1),
        "wall_s": round(watch.wall_s, 1),
        "host_cpu_s": seen["host"][0],
        "host_kb": seen["host"][1],
        "zygote_cpu_s": seen["zygote"][0],
        "zygote_kb": seen["zygote"][1],
        "agent_kb": round(statistics.mean(one.pss_kb or 0 for one in counted)),
        "agent_cpu_s": round(statistics.mean(one.cpu_s for one in counted), 2),
        "agent_sent_kb": round(statistics.mean(one.bytes for one in counted) / 1000, 1),
    }


def measured(folder: Path, spaces: Namespaces, options: argparse.Namespace) -> dict[str, Any]:
    """One run, from dealing to its audit."""
    given = {"agents": options.agents, "rate": options.rate, "updates": options.updates}
    (folder / "my.toml").write_text(CONFIGURATION.format(**given))
    run, parts = folder / "runs" / "hosts", folder / "parts"
    printed("deal", folder / "my.toml", "--out", run, "--parts", parts, "--hosts", options.hosts)
    processes = {
        name: sottovoce(
            *("host", parts / name, "--address", f"{spaces.address[name]}:7700", "--endpoints", folder / "endpoints"),
            inside=spaces.inside(name, same_clock=True),
        )
        for name in spaces.names
    }
    seen = watched(processes, parts)
    ended = [process.wait() for process in processes.values()]
    if any(ended):
        raise SystemExit(f"hosts ended with {ended}")
    results = json.loads(printed("collect", run, "--parts", parts, "--json"))
    verdict = json.loads(printed("verify", run, "--json", accepted=(0, 1)))
    audit = json.loads(printed("audit", run, "--json", accepted=(0, 1)))
    return {
        "hosts": {share.name: of_host(share, parts / share.name, seen[share.name]) for share in read_hosts(run)},
        "capture": results["capture"],
        "verified": {name: verdict[name] for name in ("ok", "bit_for_bit", "releases", "missing")},
        "audit": {"ok": audit["ok"], "findings": audit["findings"]},
        "log_kb": round((run / "traffic.mcap").stat().st_size / 1000),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--hosts", default="alpha,beta,gamma")
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--updates", type=int, default=50)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, hosts_in_namespaces(*options.hosts.split(",")) as spaces:
        print(json.dumps(measured(Path(folder), spaces, options), indent=1))


if __name__ == "__main__":
    main()
