"""One agent's life with made-up numbers and no sockets, before the zygote forks.

Python adapts a function's code and fills caches the first times it runs. In a forked agent each such write copies a
page of the parent; after a rehearsal these writes are done, and the pages stay shared: about 1.5 MB less for every
agent. Nothing of a run is seen here, and nothing of the rehearsal stays.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from coordinator_free.agents.personal.coordinate_descent import CoordinateDescent
from coordinator_free.privacy.noise import SECRET_BYTES
from coordinator_free.release import Release
from node.agent.process import live
from node.agent.surroundings import Surroundings
from node.folder.ledger import LedgerFile
from node.folder.public import NetworkNumbers, PublicNumbers
from node.folder.shard import Rows, read_shard, write_shard
from node.hello import Hello
from node.sockets.agent_sockets import FixedEndpoints, Post
from node.wire import Done, Parts, encode, own_name

_NEIGHBOURS = (1, 2)
_WAKES = 30


class _Stage(Post):
    """In the place of the sockets: two neighbours that are ready, send as often as they are received, and end."""

    def __init__(self, run: bytes, digest: bytes, dimension: int) -> None:
        self.dropped = Counter()
        self.listeners = {own_name(j) for j in _NEIGHBOURS}
        self._lines = [[encode(run, Hello(j, digest)) for j in _NEIGHBOURS]]
        for index in range(_WAKES):
            lines = [encode(run, Release(j, index, np.zeros(dimension), ((0, 0),))) for j in _NEIGHBOURS]
            self._lines.append(lines)
        self._lines.append([encode(run, Done(j, _WAKES - 1, (), (0, *_NEIGHBOURS))) for j in _NEIGHBOURS])

    def watch(self, descriptor: int) -> None:
        pass

    def bind(self, endpoint: str) -> str:
        return endpoint

    def connect(self, endpoint: str, neighbour: int) -> None:
        pass

    def send(self, parts: Parts) -> None:
        pass

    def drain(self, _: int) -> list[list[bytes]]:
        return [list(parts) for parts in self._lines.pop(0)] if self._lines else []

    def notice_listeners(self) -> bool:
        return False

    def wait(self, seconds: float) -> None:
        pass

    def close(self, _: float = 0.0) -> None:
        pass


def rehearse() -> None:
    """Live once, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="sv-rehearsal-") as name:
        folder = Path(name)
        run, digest = bytes(16), bytes(32)
        rows = Rows(np.ones((8, 3)), np.ones(8), np.ones((2, 3)), np.ones(2))
        write_shard(folder / "shard.npz", rows, replace(_PUBLIC, shard_digest=rows.digest()))
        (folder / "secret").write_bytes(bytes(SECRET_BYTES))
        setting, _, shard_digest = read_shard(folder / "shard.npz", folder / "secret")
        agent = CoordinateDescent(setting)
        plan = [agent.charge(index) for index in range(_WAKES)]
        LedgerFile.create(folder / "ledger.jsonl", shard_digest, "one record", None, plan)
        around = Surroundings(
            folder=folder,
            run=run,
            digest=digest,
            agent=0,
            neighbours=_NEIGHBOURS,
            dimension=setting.dimension,
            releases=_WAKES,
            endpoints=FixedEndpoints(dict.fromkeys(_NEIGHBOURS, "nowhere")),
            bind="nowhere",
            publish=None,
            eavesdropper=False,
            repeat=1.0,
            deadline=1.0,
            linger=0.0,
            silent=60.0,
            on_silent="wait",
            rate=1e6,
            clock_seed=0,
            skew_ns=0,
            niceness=0,
        )
        with LedgerFile.open(folder / "ledger.jsonl", shard_digest) as ledger:
            code = live(agent, ledger, around, _Stage(run, digest, setting.dimension))
        if code != 0:
            raise RuntimeError(f"the rehearsal ended with status {code}: {around.notes}")


_PUBLIC = PublicNumbers(
    agent=0,
    agents=1 + len(_NEIGHBOURS),
    neighbours=_NEIGHBOURS,
    weights=(1.0, 1.0),
    dimension=3,
    algorithm=CoordinateDescent.name,
    loss="logistic",
    regularisation=0.1,
    learning={"mu": 1.0, "smoothness": 1.0, "finish": True, "finish_mu": 1.0},
    updates=_WAKES,
    releases=_WAKES,
    release_dimension=3,
    mechanism="gaussian",
    multipliers=(1.0,) * _WAKES,
    clip=1.0,
    budget=None,
    network=NetworkNumbers(
        transport="ipc",
        host="127.0.0.1",
        repeat=1.0,
        deadline=1.0,
        linger=0.0,
        silent=60.0,
        on_silent="wait",
        encryption=False,
        eavesdropper=False,
        conditions={},
    ),
)
