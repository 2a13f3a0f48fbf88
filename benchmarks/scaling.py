"""What 100,000 agents on 100 nodes cost: links and traffic of a real graph, learning in the twin, and readiness.

    python benchmarks/scaling.py [--agents 100000] [--nodes 100] [--updates 3] [--json]

Constants (reading keys, endpoints, an encrypted connection, a fork, a logged frame) are measured on this machine at
the start. The graph is made and shared among the nodes in blocks. The twin runs coordinate descent on all agents. How
the nodes get ready is simulated from the constants: each node begins at a random moment, forks its agents one by one,
tells their endpoints in one file, and reads those of the others; a link stands once both ends know each other.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402
import zmq  # noqa: E402
from twin_million import cycles  # noqa: E402

from coordinator_free.problem.losses import LOGISTIC  # noqa: E402
from coordinator_free.release import Release  # noqa: E402
from coordinator_free.twin.vectorised import Crowd, run_coordinate_descent  # noqa: E402
from node.folder.hosts import HostShare  # noqa: E402
from node.folder.keys import PUBLIC_KEYS, make_keys, read_keys  # noqa: E402
from node.places import agent_folder  # noqa: E402
from node.traffic.completeness import CaptureCounter  # noqa: E402
from node.traffic.writer import TrafficLogWriter  # noqa: E402
from node.wire import encode  # noqa: E402
from node.worlds.exchange import Exchange  # noqa: E402
from topology.network import Network  # noqa: E402

RUN = bytes(16)
DEGREE = 10
DIMENSION = 10
RECORDS = 10
LOOK = 1.0
"""Seconds between two looks of a host with a thousand agents."""
AGENTS_LOOK = 0.4
"""The longest time between two looks of an agent."""


def processor(call: Callable[[], object]) -> float:
    """Seconds of processor that a call takes, the least of three."""
    best = np.inf
    for _ in range(3):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return float(best)


# --- constants -------------------------------------------------------------------------------------------------------


def constants(folder: Path, agents: int, nodes: int) -> dict[str, float]:
    """What one piece of each kind of work takes on this machine, in seconds of processor."""
    share = agents // nodes
    return {
        "keys_of_all_s": _keys(folder, agents),
        **_exchange(folder, share, nodes),
        "connection_s": _connection(50),
        "fork_s": _fork(20),
        "frame_s": _frame(folder, 5000),
    }


def _keys(folder: Path, agents: int) -> float:
    """Reading the file of all public keys, by one agent."""
    agent_folder(folder, 0).mkdir(parents=True)
    make_keys(folder, [0])
    line = (folder / PUBLIC_KEYS).read_text().split()[1]
    (folder / PUBLIC_KEYS).write_text("".join(f"agent-{agent:04d} {line}\n" for agent in range(agents)))
    return processor(lambda: read_keys(folder, 0, range(1, 1 + DEGREE)))


def _exchange(folder: Path, share: int, nodes: int) -> dict[str, float]:
    """Learning the endpoints of another node, and a look of a host in which it finds nothing new."""
    (folder / "endpoints").mkdir()
    hosts = [HostShare(f"n{k}", tuple(range(k * share, (k + 1) * share)), False) for k in range(nodes)]
    few = hosts[: min(nodes, 4)]
    for host in few:
        lines = (f"{agent} tcp://10.0.0.{agent % 250}:{10000 + agent % share}\n" for agent in host.agents)
        (folder / f"{host.name}.endpoints").write_text("".join(lines))
    exchange = Exchange(folder, folder, few[0], few[1:])
    began = time.process_time()
    exchange.exchange()
    learning = (time.process_time() - began) / max(1, len(few) - 1)
    return {"endpoints_of_a_node_s": learning, "look_s": processor(exchange.exchange)}


def _connection(count: int) -> float:
    """An encrypted connection between two agents, both ends together, threads of ZeroMQ included."""
    context = zmq.Context()
    public, private = zmq.curve_keypair()
    server = context.socket(zmq.XPUB)
    server.curve_server, server.curve_publickey, server.curve_secretkey = True, public, private
    server.bind("tcp://127.0.0.1:*")
    endpoint = server.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
    own_public, own_private = zmq.curve_keypair()
    clients = [context.socket(zmq.SUB) for _ in range(count)]
    began = time.process_time()
    for number, client in enumerate(clients):
        client.curve_serverkey, client.curve_publickey, client.curve_secretkey = public, own_public, own_private
        client.subscribe(b"%d" % number)
        client.connect(endpoint)
    for _ in clients:
        server.recv()
    spent = time.process_time() - began
    for socket in (server, *clients):
        socket.close(0)
    context.term()
    return spent / count


def _fork(count: int) -> float:
    """A child of a process that has imported what an agent needs, from fork to end, both processes together."""
    before = os.times()
    for _ in range(count):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    after = os.times()
    return float(sum(after[:4]) - sum(before[:4])) / count


def _frame(folder: Path, count: int) -> float:
    """Logging one release, from its frame to the file, without the socket."""
    random = np.random.default_rng(0)
    used = tuple((agent, 1) for agent in range(DEGREE))
    frames = [encode(RUN, Release(k % 1000, k // 1000, random.standard_normal(DIMENSION), used)) for k in range(count)]

    def log() -> None:
        path = folder / "speed.mcap"
        path.unlink(missing_ok=True)
        writer, counter = TrafficLogWriter(path), CaptureCounter(RUN, range(1000))
        for number, parts in enumerate(frames):
            writer.write(parts, number)
            counter.tally(parts)
        writer.close({})

    return processor(log) / count


# --- simulation ------------------------------------------------------------------------------------------------------


def links_of(network: Network, nodes: int) -> dict[str, Any]:
    """Connections of each node, and the share of links that cross nodes; a link is one in each direction."""
    edges = network.weights.tocoo()
    share = -(-network.agents // nodes)
    here, there = edges.coords[0] // share, edges.coords[1] // share
    across = here != there
    ends = np.bincount(here, minlength=nodes) + np.bincount(there, minlength=nodes)
    return {
        "links": int(across.size),
        "across": round(float(across.mean()), 4),
        "ends_per_node_mean": round(float(ends.mean())),
        "ends_per_node_max": int(ends.max()),
    }


def traffic_of(agents: int, nodes: int, seconds: int) -> dict[str, Any]:
    """Releases of a node in a second, with Poisson clocks of rate 1, over ``seconds`` of all nodes."""
    counts = np.random.default_rng(1).poisson(agents / nodes, (nodes, seconds))
    return {"releases_per_node_s_mean": round(float(counts.mean())), "releases_per_node_s_max": int(counts.max())}


def learned(network: Network, updates: int) -> dict[str, Any]:
    """Coordinate descent of all agents in the twin: how many held-out labels of a common task are right."""
    n, random = network.agents, np.random.default_rng(2)
    x, tests = (random.uniform(-1, 1, (n * RECORDS, DIMENSION)) for _ in range(2))
    truth = np.ones(DIMENSION)
    labels = np.where(x @ truth + random.standard_normal(len(x)) > 0, 1.0, -1.0)
    began = time.process_time()
    models = run_coordinate_descent(
        network,
        Crowd(x, labels, np.arange(n + 1) * RECORDS, LOGISTIC, np.full(n, 1.0 / RECORDS)),
        confidences=np.ones(n),
        smoothness=np.full(n, 1.0 + 2.0 / RECORDS),
        mu=0.5,
        updates=updates,
        rate=1.0,
        seed=3,
    )
    right = np.sign(np.einsum("ij,ij->i", tests, np.repeat(models, RECORDS, axis=0))) == np.sign(tests @ truth)
    return {
        "cpu_s": round(time.process_time() - began, 1),
        "peak_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "right": round(float(right.mean()), 3),
    }


def readiness(network: Network, nodes: int, cores: int, spread: float, cost: dict[str, float]) -> dict[str, Any]:
    """Seconds after the first node's start at which agents are ready, with nodes that start within ``spread`` s."""
    n, random = network.agents, np.random.default_rng(4)
    share = -(-n // nodes)
    node = np.arange(n) // share
    start = random.uniform(0.0, spread, nodes)
    # Forks are one by one; the keys are read by as many agents at once as there are cores.
    forked = start[node] + (np.arange(n) % share + 1) * cost["fork_s"]
    listening = np.maximum(forked, start[node] + (np.arange(n) % share + 1) * cost["keys_of_all_s"] / cores)
    last_told = np.zeros(nodes)
    np.maximum.at(last_told, node, listening)
    told = last_told + random.uniform(0.0, LOOK, nodes)  # the whole file; earlier ones are parts of it
    # A host learns one file after the other, as they appear.
    known = np.zeros((nodes, nodes))
    for own in range(nodes):
        order = np.argsort(told)
        at = 0.0
        for other in order:
            at = max(at, told[other] + random.uniform(0.0, LOOK), last_told[own])
            at += cost["endpoints_of_a_node_s"] if other != own else 0.0
            known[own, other] = at
    edges = network.weights.tocoo()
    here, there = edges.coords
    seen = np.maximum(known[node[here], node[there]], listening[here]) + random.uniform(0, AGENTS_LOOK, here.size)
    # All connections of a node share its cores, in the order in which they can be made.
    connected = np.zeros(here.size)
    for own in range(nodes):
        mine = np.flatnonzero(node[here] == own)
        mine = mine[np.argsort(seen[mine])]
        work = np.full(mine.size, cost["connection_s"] / cores)
        done = np.cumsum(work)
        connected[mine] = done + np.maximum.accumulate(seen[mine] - done + work)
    ready = np.zeros(n)
    np.maximum.at(ready, here, connected)
    np.maximum.at(ready, there, connected)
    return {
        "last_node_starts_s": round(float(start.max()), 1),
        "last_agent_listens_s": round(float(listening.max()), 1),
        "last_endpoint_known_s": round(float(known.max()), 1),
        "half_ready_s": round(float(np.median(ready)), 1),
        "all_ready_s": round(float(ready.max()), 1),
        "processor_per_node_s": {
            "forks": round(share * cost["fork_s"], 1),
            "keys": round(share * cost["keys_of_all_s"], 1),
            "endpoints": round((nodes - 1) * cost["endpoints_of_a_node_s"], 1),
            "connections": round(here.size / nodes * cost["connection_s"], 1),
        },
        "eavesdropper_cores": {
            "one_for_all": round(n * cost["frame_s"], 2),
            "one_a_node": round(share * cost["frame_s"], 3),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--cores", type=int, default=16, help="of a node")
    parser.add_argument("--spread", type=float, default=30.0, help="seconds in which all nodes have started")
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one JSON document on one line")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cost = constants(Path(folder), options.agents, options.nodes)
    network = cycles(options.agents, DEGREE // 2, 1)
    result = {
        "constants": {name: float(f"{value:.3g}") for name, value in cost.items()},
        "links": links_of(network, options.nodes),
        "traffic": traffic_of(options.agents, options.nodes, 100),
        "readiness": readiness(network, options.nodes, options.cores, options.spread, cost),
        "twin": learned(network, options.updates),
    }
    print(json.dumps(result, indent=None if options.json else 1))


if __name__ == "__main__":
    main()
