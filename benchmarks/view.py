"""The live page with many agents: seconds to the first view, milliseconds of a scrub, pictures a second, memory.

    python benchmarks/view.py [--agents 943] [--releases 100] [--log FILE] [--chromium /usr/bin/chromium]

It writes a traffic log with the product's own format (no process of an agent is started), shows it by
``sottovoce view`` and drives the page in a headless Chromium without a graphics processor. ``--log FILE`` only writes
the log there.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
from scipy.spatial import cKDTree

from coordinator_free.release import Release
from node.hello import Hello
from node.traffic.writer import TrafficLogWriter
from node.wire import Done, encode

RUN = bytes(range(16))
SECONDS = 100.0
NEIGHBOURS = 6.36
"""On average each agent picks so many: 943 agents have about 6,000 edges."""


def graph(agents: int, rng: np.random.Generator) -> nx.Graph:
    """Each agent and those that are most alike, as of film raters: tastes in groups."""
    tastes = rng.normal(size=(agents, 4)) + 1.3 * rng.normal(size=(10, 4))[rng.integers(10, size=agents)]
    wanted = np.clip(rng.poisson(NEIGHBOURS + 2.0, agents), 2, agents - 1)
    _, near = cKDTree(tastes).query(tastes, int(wanted.max()) + 1)
    found = nx.Graph()
    found.add_nodes_from(range(agents))
    for agent in range(agents):
        found.add_weighted_edges_from((agent, int(j), 1.0) for j in near[agent, 1 : wanted[agent] + 1])
    parts = [sorted(part) for part in nx.connected_components(found)]
    found.add_weighted_edges_from((one[0], other[0], 1.0) for one, other in pairwise(parts))
    return found


def write_log(path: Path, agents: int, releases: int) -> int:
    """A log of agents on Poisson clocks, each with so many releases; returns the number of edges."""
    rng = np.random.default_rng(0)
    network = graph(agents, rng)
    text = io.BytesIO()
    nx.write_graphml(network, text)
    manifest = {
        "run": RUN.hex(),
        "name": f"{agents} agents",
        "agents": agents,
        "names": [f"rater {agent}" for agent in range(agents)],
        "records": np.clip(rng.lognormal(4.2, 1.0, agents), 16, 700).astype(int).tolist(),
        "releases": [releases] * agents,
        "algorithm": "coordinate-descent",
        "record": "one rating",
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0},
    }
    attachments = {"topology.graphml": text.getvalue(), "manifest.json": json.dumps(manifest).encode()}
    times = np.sort(rng.uniform(2.0, SECONDS, (agents, releases)), axis=1)
    order = sorted((float(times[i, k]), i, k) for i in range(agents) for k in range(releases))
    start = 1_800_000_000_000_000_000
    newest = np.full(agents, -1)
    seen: list[dict[int, int]] = [{} for _ in range(agents)]
    models = np.zeros((agents, 20))
    log = TrafficLogWriter(path, attachments)
    for agent in range(agents):
        log.write(encode(RUN, Hello(agent, bytes(32))), start + agent * 1_000_000)
    for when, i, k in order:
        late = [(j, int(newest[j]) - int(rng.integers(3) * (i % 5 == 0))) for j in sorted(network[i])]
        used = [(j, index) for j, index in late if index > seen[i].get(j, -1)]
        seen[i].update(used)
        models[i] += rng.normal(scale=1.0 / (1 + k), size=20)
        release = Release(i, k, models[i].copy(), tuple(used))
        newest[i] = k
        log.write(encode(RUN, release), start + round(1e9 * when))
    for agent in range(agents):
        log.write(encode(RUN, Done(agent, releases - 1)), start + round(1e9 * SECONDS) + agent * 1_000_000)
    log.close({})
    return network.number_of_edges()


MEASURE = """async () => {
  const input = document.getElementById("time"), end = Number(input.max);
  const drawn = () => new Promise(requestAnimationFrame);
  const scrubs = [];
  for (let step = 0; step < 40; step++) {
    await drawn();
    const from = performance.now();
    input.value = end * ((step * 17) % 40) / 40;
    input.dispatchEvent(new Event("input"));
    await drawn(); await drawn();
    scrubs.push(performance.now() - from);
  }
  input.value = 0.3 * end; input.dispatchEvent(new Event("input"));
  document.getElementById("play").click();
  let pictures = 0; const from = performance.now();
  while (performance.now() - from < 5000) { await drawn(); pictures++; }
  const rate = 1000 * pictures / (performance.now() - from);
  document.getElementById("play").click();
  scrubs.sort((a, b) => a - b);
  return { median: scrubs[20], worst: scrubs[39], rate, heap: performance.memory?.usedJSHeapSize ?? 0 };
}"""


def measure(log: Path, chromium: str) -> None:
    """Show the log, drive the page, and print what was measured."""
    from playwright.sync_api import sync_playwright

    program = [sys.executable, "-m", "node.cli", "view", str(log)]
    began = time.perf_counter()
    with (
        subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server,
        sync_playwright() as driver,
    ):
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        print(f"address after {time.perf_counter() - began:.2f} s")
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--enable-precise-memory-info"]
        browser = driver.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        opened = time.perf_counter()
        page.goto(address)
        page.wait_for_selector("body[data-drawn]", timeout=120_000)
        print(f"network drawn {time.perf_counter() - opened:.2f} s after the page was opened")
        page.wait_for_selector("body[data-whole]", timeout=120_000)
        print(f"whole log there {time.perf_counter() - opened:.2f} s after it was opened")
        found = page.evaluate(MEASURE)
        print(f"scrub: median {found['median']:.0f} ms, worst of 40 {found['worst']:.0f} ms")
        print(f"playing: {found['rate']:.0f} pictures a second")
        print(f"memory of the page's heap: {found['heap'] / 1e6:.0f} MB")
        browser.close()
        server.terminate()


def main() -> None:
    """Write, show, measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=943)
    parser.add_argument("--releases", type=int, default=100)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = options.log or Path(folder) / "many.mcap"
        edges = write_log(log, options.agents, options.releases)
        releases, size = options.agents * options.releases, log.stat().st_size / 1e6
        print(f"{options.agents} agents, {edges} edges, {releases} releases, {size:.1f} MB")
        if options.log is None:
            measure(log, options.chromium)


if __name__ == "__main__":
    main()
