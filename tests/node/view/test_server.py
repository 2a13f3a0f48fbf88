"""The page's server, over real sockets: the readers that it answers, what it shows, and what it never shows."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidHandshake

from node.folder.ledger import LedgerFile
from node.folder.spending import spent
from node.places import agent_folder
from node.view.columns import RELEASE
from node.view.serving import bound, serve
from node.view.subject import Subject, subject_of
from tests.helpers.twin_runs import finished
from tests.helpers.viewed import begin_log, columns_of, messages, write, written

PRIVATE = {
    "run": {"seed": 5},
    "data": {"source": "synthetic", "agents": 4, "dimension": 3, "records": [12, 20]},
    "topology": {"kind": "ring"},
    "learning": {"mu": 1.0, "smoothness": 1.0},
    "clock": {"updates": 10},
    "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-3, "clip": 1.0},
}


@contextlib.asynccontextmanager
async def shown(subject: Subject) -> AsyncIterator[str]:
    """The address at which the subject is shown."""
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()
    serving = asyncio.create_task(serve(subject, bound(0), told.set_result, over))
    try:
        yield await told
    finally:
        over.set()
        await serving


async def get(address: str, path: str = "", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and content."""

    def ask() -> tuple[int, dict[str, str], bytes]:
        where = urlsplit(address)
        connection = http.client.HTTPConnection(where.netloc, timeout=600)
        with contextlib.closing(connection):
            connection.request("GET", where.path + path, headers=headers)
            with connection.getresponse() as answer:
                return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()

    return await asyncio.to_thread(ask)


async def document(address: str, path: str) -> dict:
    status, _, content = await get(address, path)
    assert status == 200, content
    return json.loads(content)


async def fed(address: str, rows: int) -> tuple[list[bytes], list[dict]]:
    """The batches and the messages of the feed until it holds so many rows, and a state after them."""
    batches: list[bytes] = []
    told: list[dict] = []
    held = 0
    async with connect(address.replace("http:", "ws:") + "feed") as feed:
        while held < rows or not told or "state" not in told[-1] or not told[-1]["state"]["caught_up"]:
            message = await feed.recv()
            if isinstance(message, bytes):
                batches.append(message)
                held += int.from_bytes(message[4:8], "little")
            else:
                told.append(json.loads(message))
    return batches, told


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("log") / "ring.mcap", 6, 8, [{"after": 9, "fault": "heal"}])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    return finished(tmp_path_factory.mktemp("run") / "run", PRIVATE)


async def test_only_the_page_of_this_machine_is_answered(log: Path) -> None:
    async with shown(subject_of(log)) as address:
        where = urlsplit(address)
        assert where.hostname == "127.0.0.1"
        token = where.path.strip("/")
        assert len(token) >= 32
        assert (await get(address))[0] == 200
        guesses = ["/", "/network.json", f"/{token[:-1]}/", f"/{token}x/network.json", "/page/main.js", "//" + token]
        for path in guesses:
            assert (await get(f"http://{where.netloc}", path))[0] == 404, path
        assert (await get(address, Host="evil.example"))[0] == 404
        assert (await get(address, Host=f"evil.example:{where.port}"))[0] == 404
        assert (await get(address, Origin="http://evil.example"))[0] == 404
        assert (await get(address, "../../subject.py"))[0] == 404
        assert (await get(address, "page/..%2f..%2fsubject.py"))[0] == 404
        socket = address.replace("http:", "ws:") + "feed"
        for wrong, origin in ((socket, "http://evil.example"), (socket.replace(token, "x" * 32), None)):
            with pytest.raises(InvalidHandshake):
                await connect(wrong, origin=origin)


async def test_the_page_may_load_nothing_from_elsewhere(log: Path) -> None:
    async with shown(subject_of(log)) as address:
        for path in ("", "page/main.js", "network.json", "nowhere"):
            _, headers, content = await get(address, path)
            policy = headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self';")
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["cache-control"] == "no-store"
            assert b"https://" not in content


async def test_nothing_changes_anything(log: Path) -> None:
    async with shown(subject_of(log)) as address:
        where = urlsplit(address)

        def post() -> int:
            with contextlib.closing(http.client.HTTPConnection(where.netloc, timeout=600)) as connection:
                connection.request("POST", where.path + "network.json", b"{}")
                with connection.getresponse() as answer:
                    return answer.status

        assert await asyncio.to_thread(post) == 405


async def test_a_log_alone(log: Path) -> None:
    async with shown(subject_of(log)) as address:
        batches, told = await fed(address, 6 * 8 + 12)
        found = columns_of(batches)
        assert (found["kind"] == RELEASE).sum() == 48
        assert [event["fault"] for message in told for event in message.get("events", ())] == ["heal"]
        state = told[-1]["state"]
        assert state["capture"]["complete"]
        assert not state["live"]
        network = await document(address, "network.json")
        assert network["agents"] == 6
        assert sorted(map(tuple, network["edges"])) == [(0, 1), (0, 5), (1, 2), (2, 3), (3, 4), (4, 5)]
        assert network["facts"]["names"][2] == "school <b>2</b>"
        assert network["uncovered"] is None
        assert (await document(address, "agent/2"))["ledger"] is None
        for path in ("budgets", "agent/6", "release/60"):
            assert (await get(address, path))[0] == 404
        hello = await document(address, "release/0")
        assert (hello["header"]["kind"], hello["refused"]) == ("hello", None)
        row = int(np.flatnonzero(found["kind"] == RELEASE)[5])
        release = await document(address, f"release/{row}")
        assert release["header"]["from"] == found["sender"][row]
        assert len(release["vector"]) == release["length"] == 3
        assert sum(part["bytes"] for part in release["parts"]) == found["size"][row]


async def test_a_growing_log_is_live(tmp_path: Path) -> None:
    path, sent = tmp_path / "growing.mcap", list(messages(6, 8))
    log = begin_log(path, 6, 8)
    write(log, sent[:20])
    log.flush()
    async with (
        shown(subject_of(path, recorded_here=True)) as address,
        connect(address.replace("http:", "ws:") + "feed") as feed,
    ):
        held, live = 0, None
        while held < 20 or live is None:
            message = await feed.recv()
            if isinstance(message, bytes):
                held += int.from_bytes(message[4:8], "little")
            elif (state := json.loads(message).get("state")) and state["caught_up"]:
                live = state["live"]
        assert live
        write(log, sent[20:])
        log.close({})
        while held < len(sent) or live:
            message = await feed.recv()
            if isinstance(message, bytes):
                held += int.from_bytes(message[4:8], "little")
            else:
                live = json.loads(message).get("state", {"live": live})["live"]
        assert held == len(sent)


async def test_links_of_a_log_without_a_graph_follow_from_what_was_used(tmp_path: Path) -> None:
    from node.traffic.writer import TrafficLogWriter

    log = TrafficLogWriter(tmp_path / "bare.mcap")
    write(log, messages(6, 8))
    log.close({})
    async with shown(subject_of(tmp_path / "bare.mcap")) as address:
        await fed(address, 60)
        network = await document(address, "network.json")
        assert network["inferred"]
        assert (network["agents"], len(network["places"])) == (6, 6)
        assert {tuple(edge) for edge in network["edges"]} <= {(0, 1), (0, 5), (1, 2), (2, 3), (3, 4), (4, 5)}
        assert len(network["edges"]) >= 5


async def test_a_runs_charges_are_the_accountants(run: Path) -> None:
    async with shown(subject_of(run)) as address:
        budgets = await document(address, "budgets")
        known = spent(run)
        last = [steps[-1][1] for steps in budgets["steps"]]
        assert last == pytest.approx(known.epsilons.tolist(), rel=1e-12)
        assert budgets["budget"] == known.budget == 1.0
        ledger = (await document(address, "agent/0"))["ledger"]
        assert ledger["before"] == 0.0
        assert [charge["first"] for charge in ledger["charges"]] == list(range(10))
        epsilons = [epsilon for _, epsilon in ledger["steps"]]
        assert len(epsilons) == 10
        assert epsilons == sorted(epsilons)
        assert epsilons[0] < 0.5 * epsilons[-1]
        assert all(charge["scale"] > 0 for charge in ledger["charges"])


async def test_no_secret_and_nothing_that_epsilon_does_not_cover_is_shown(run: Path) -> None:
    with LedgerFile.read(agent_folder(run, 0) / "ledger.jsonl", None) as ledger:
        nonces = [line["nonce"] for line in ledger.records() if "nonce" in line]
    assert nonces
    secret = (agent_folder(run, 0) / "secret").read_bytes().hex()
    async with shown(subject_of(run)) as address:
        answers = [(await get(address, path))[2].decode() for path in ("network.json", "budgets", "agent/0")]
        everything = "".join(answers)
        assert not [hidden for hidden in (*nonces, secret) if hidden in everything]
        assert json.loads(answers[0])["uncovered"] is None
        assert "score" not in everything
    async with shown(subject_of(run, uncovered=True)) as address:
        uncovered = (await document(address, "network.json"))["uncovered"]
        assert len(uncovered["scores"]["together"]) == 4
        assert uncovered["audit"] is None


def test_what_cannot_be_shown_is_refused(tmp_path: Path, log: Path) -> None:
    from tests.helpers.command import answered

    (tmp_path / "empty").mkdir()
    text = tmp_path / "text"
    text.write_text("no log")
    cases = [
        ([tmp_path / "empty"], "has no manifest.json"),
        ([text], "is not a traffic log"),
        ([tmp_path / "nowhere"], "No such file"),
        ([log, "--uncovered"], "--uncovered with the log"),
        ([log, log], "accepted is one run's folder, one log, or several endpoints"),
        (["tcp://127.0.0.1:1", "--uncovered"], "--uncovered with endpoints"),
        (["tcp://nowhere"], "accepted are tcp://HOST:PORT"),
    ]
    for arguments, words in cases:
        answer = answered("view", *arguments)
        assert answer.returncode == 2
        assert words in answer.stderr
        assert answer.stdout == ""


def test_a_port_that_is_taken_is_refused() -> None:
    with contextlib.closing(bound(0)) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"--port {port}: Address already in use"):
            bound(port)
