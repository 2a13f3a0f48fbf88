"""Nobody else may hear or speak: keys, the list of those who are let in, and whose voice a connection carries."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import zmq

from coordinator_free.release import Release
from node.folder.keys import AGENT_KEY, EAVESDROPPER_KEY, PUBLIC_KEYS, Keys, KeysError, key_path, make_keys, read_keys
from node.hello import Hello
from node.places import agent_folder
from node.sockets.admission import DOMAIN
from node.sockets.agent_sockets import Post
from node.traffic.reader import TrafficLogReader
from node.wire import EAVESDROPPER, Done, Receiver, encode, own_name
from tests.helpers.clusters import AGENTS, dealt, final, named, ran, said, table, watched
from tests.helpers.command import answered
from tests.helpers.documents import conforms

RUN = bytes(16)
ENCRYPTED = {"transport": "tcp", "encryption": True}


def release(sender: int, index: int) -> Release:
    return Release(sender=sender, index=index, vector=np.arange(3.0), used=())


def until(condition: Callable[[], bool], *posts: Post) -> None:
    """Let the posts work until a condition holds; the deadline is only for a test that fails."""
    for _ in range(20_000):
        for post in posts:
            post.notice_listeners()
        if condition():
            return
        posts[0].wait(0.01)
    raise AssertionError("it never came to that")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The keys of agents 0, 1, 2 and the eavesdropper."""
    for agent in range(3):
        agent_folder(tmp_path, agent).mkdir(parents=True)
    make_keys(tmp_path, [0, 1, 2, None])
    return tmp_path


class Posts:
    """Makes posts, and closes them at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: list[Post] = []

    def __call__(self, agent: int, neighbours: tuple[int, ...], keys: Keys | None = None) -> tuple[Post, str]:
        keys = keys or read_keys(self._folder, agent, neighbours, eavesdropper=True)
        expected = [EAVESDROPPER, *map(own_name, neighbours)]
        post = Post(agent, expected=expected, dimension=3, keys=keys)
        self._made.append(post)
        return post, post.bind("tcp://127.0.0.1:0")

    def close(self) -> None:
        for post in self._made:
            post.close()


@pytest.fixture
def posts(folder: Path) -> Iterator[Posts]:
    made = Posts(folder)
    yield made
    made.close()


class Stranger:
    """Somebody with sockets and no place in the run."""

    def __init__(self) -> None:
        self._context = zmq.Context()
        self._sockets: list[zmq.Socket[bytes]] = []

    def socket(self, kind: int) -> zmq.Socket[bytes]:
        self._sockets.append(self._context.socket(kind))
        return self._sockets[-1]

    def ear(self, door: bytes, keys: tuple[bytes, bytes]) -> zmq.Socket[bytes]:
        """A SUB that shows a key pair to the door with this public key."""
        ear = self.socket(zmq.SUB)
        ear.curve_publickey, ear.curve_secretkey, ear.curve_serverkey = *keys, door
        ear.subscribe(EAVESDROPPER)
        ear.subscribe(b"")
        return ear

    def close(self) -> None:
        self._context.destroy(linger=0)


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    one = Stranger()
    yield one
    one.close()


def test_the_named_hear_and_strangers_hear_nothing(folder: Path, posts: Posts, stranger: Stranger) -> None:
    speaker, door = posts(0, (1,))
    friend, _ = posts(1, (0,))
    friend.connect(door, 0)
    until(lambda: own_name(1) in speaker.listeners, speaker, friend)
    public = read_keys(folder, 1, [0]).agents[0]
    # One shows keys of its own, one shows the public key of a named agent without its private key, one shows none.
    thief = (read_keys(folder, 1, []).public, zmq.curve_keypair()[1])
    ears = [stranger.ear(public, keys) for keys in (zmq.curve_keypair(), thief)]
    ears.append(stranger.socket(zmq.SUB))
    ears[-1].subscribe(b"")
    monitors = [ear.get_monitor_socket(zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED) for ear in ears]
    for ear in ears:
        ear.connect(door)
    hung_up: set[int] = set()

    def all_were_refused() -> bool:
        speaker.drain(1)
        for number, monitor in enumerate(monitors):
            while monitor.poll(0):
                event = monitor.recv_multipart()
                if int.from_bytes(event[0][:2], sys.byteorder) == zmq.EVENT_DISCONNECTED:
                    hung_up.add(number)
        return len(hung_up) == len(ears)

    until(all_were_refused, speaker)
    for index in range(50):
        speaker.send(encode(RUN, release(0, index)))
    heard: list[list[bytes]] = []

    def all_fifty() -> bool:
        heard.extend(friend.drain(64))
        return len(heard) == 50

    until(all_fifty, friend)
    assert [ear.poll(0) for ear in ears] == [0, 0, 0]
    assert speaker.listeners == {own_name(1)}
    for monitor in monitors:
        monitor.close(0)


def test_a_publisher_with_another_key_is_not_heard(folder: Path, posts: Posts) -> None:
    public, private = zmq.curve_keypair()
    impostor, false_door = posts(0, (1,), Keys(public, private, read_keys(folder, 0, [1]).agents))
    honest, door = posts(2, (1,))
    listener, _ = posts(1, (0, 2))
    listener.connect(false_door, 0)
    listener.connect(door, 2)
    until(lambda: own_name(1) in honest.listeners, honest, listener, impostor)
    for index in range(50):
        impostor.send(encode(RUN, release(0, index)))
        honest.send(encode(RUN, release(2, index)))
    receiver = Receiver(RUN, 1, (0, 2), 3, 50)
    heard: list[int] = []

    def all_of_the_honest() -> bool:
        heard.extend(message.sender for message in receiver.take(listener.drain(64))[0])
        impostor.drain(1)
        return heard.count(2) == 50

    until(all_of_the_honest, listener, impostor)
    assert heard == [2] * 50
    assert impostor.listeners == set()


def test_a_neighbour_that_speaks_for_another_is_dropped_and_counted(posts: Posts) -> None:
    liar, lies = posts(0, (1,))
    honest, truth = posts(2, (1,))
    listener, _ = posts(1, (0, 2))
    listener.connect(lies, 0)
    listener.connect(truth, 2)
    until(lambda: own_name(1) in liar.listeners and own_name(1) in honest.listeners, liar, honest, listener)
    forged = encode(RUN, release(2, 0))
    liar.send(forged)
    liar.send((forged[0][:4], *forged[1:]))  # a topic cut short
    liar.send((b"", *forged[1:]))
    liar.send((encode(RUN, release(0, 0))[0], *forged[1:]))  # its own topic over another's header
    liar.send(encode(RUN, Hello(0, bytes(32))))
    honest.send(encode(RUN, release(2, 1)))
    receiver = Receiver(RUN, 1, (0, 2), 3, 50)
    taken: list[tuple[int, int | None]] = []

    def both_were_heard() -> bool:
        releases, others = receiver.take(listener.drain(64))
        taken.extend((message.sender, message.index) for message in releases)
        taken.extend((message.sender, None) for message in others)
        return {(0, None), (2, 1)} <= set(taken)

    until(both_were_heard, listener)
    assert sorted(taken, key=str) == [(0, None), (2, 1)]
    assert listener.dropped == {"speaks for another": 3}
    assert receiver.dropped == {"sender": 1}


@pytest.mark.processes
def test_the_eavesdropper_on_its_own_hears_encrypted_links_with_its_key_and_not_without(
    folder: Path, posts: Posts, tmp_path: Path
) -> None:
    speakers = {agent: posts(agent, (1,)) for agent in (2, 0)}
    command = [sys.executable, "-m", "node.cli", "eavesdrop", "--json"]
    numbered = [f"{agent}={door}" for agent, (_, door) in speakers.items()]
    heard = tmp_path / "heard.mcap"
    process = subprocess.Popen(
        [*command, *numbered, "--log", str(heard), "--keys", str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        for post, _ in speakers.values():
            until(lambda post=post: EAVESDROPPER in post.listeners, post)  # type: ignore[misc]
        said = [encode(RUN, message) for agent in speakers for message in (release(agent, 0), Done(agent, 0, (), ()))]
        for parts in said:
            speakers[parts[0][3]][0].send(parts)
        out, _ = process.communicate(timeout=600)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, out
    assert json.loads(out)["capture"]["complete"]
    assert sorted(frame.parts for frame in TrafficLogReader(heard)) == sorted(said)
    other = tmp_path / "other.mcap"
    for wrong, words in (
        (["--run", str(folder), "--keys", str(folder)], "accepted with --log only"),
        (["--log", str(other), "--keys", str(folder / "agents")], "cannot be read"),
        (["--log", str(other), "--keys", str(folder), "7=tcp://127.0.0.1:1"], "no public key of agent-0007"),
        (["--log", str(other), "--keys", str(folder), "2=tcp://127.0.0.1:1"], "agent 2 has an endpoint already"),
    ):
        refused = answered("eavesdrop", "--json", *numbered, *wrong)
        assert refused.returncode == 2
        assert words in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
        assert not other.exists()


def test_nobody_is_let_in_while_nobody_answers(folder: Path, stranger: Stranger) -> None:
    from node.sockets.admission import guard

    keys = read_keys(folder, 0, [1])
    door = stranger.socket(zmq.XPUB)
    guard(door, keys.public, keys.private)
    assert door.getsockopt(zmq.ZAP_DOMAIN) == DOMAIN
    port = door.bind_to_random_port("tcp://127.0.0.1")
    ear = stranger.ear(keys.public, zmq.curve_keypair())
    monitor = door.get_monitor_socket(
        zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_DISCONNECTED
    )
    ear.connect(f"tcp://127.0.0.1:{port}")
    assert monitor.poll(600_000)
    assert int.from_bytes(monitor.recv_multipart()[0][:2], sys.byteorder) != zmq.EVENT_HANDSHAKE_SUCCEEDED
    assert door.poll(0) == 0
    monitor.close(0)


def test_private_keys_are_their_owners_alone_and_never_shown(folder: Path) -> None:
    keys = read_keys(folder, 0, [1, 2], eavesdropper=True)
    assert keys.private.decode() not in repr(keys)
    assert len(keys.admitted) == 3
    path = key_path(folder, 0)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    with pytest.raises(KeysError, match="0640: accepted is 0600"):
        read_keys(folder, 0, [])
    path.chmod(0o600)
    path.write_text("too short")
    with pytest.raises(KeysError, match="is damaged") as damaged:
        read_keys(folder, 0, [])
    assert "too short" not in str(damaged.value)
    with pytest.raises(KeysError, match="no public key of agent-0007"):
        read_keys(folder, 1, [7])
    path.unlink()
    with pytest.raises(KeysError, match="cannot be read"):
        read_keys(folder, 0, [])


@pytest.fixture(scope="module")
def encrypted_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "encrypted"
    watch = ran(run, table(network=ENCRYPTED))
    assert watch.failures == []
    assert watch.eavesdropper_status == 0, (run / "eavesdropper.log").read_text()
    return run


@pytest.mark.processes
def test_an_encrypted_cluster_learns_and_its_log_is_complete(encrypted_run: Path) -> None:
    releases = {(m.sender, m.index) for m in said(encrypted_run) if isinstance(m, Release)}
    assert releases == {(agent, index) for agent in range(AGENTS) for index in range(40)}
    for agent in range(AGENTS):
        assert final(encrypted_run, agent)["received"] == 80
        assert final(encrypted_run, agent)["dropped_by_reason"] == {}
    verified = answered("verify", encrypted_run)
    assert verified.returncode == 0, verified.stderr


@pytest.mark.processes
def test_private_keys_are_in_no_other_file_of_the_run(encrypted_run: Path) -> None:
    owners: list[int | None] = [*range(AGENTS), None]
    files = [path for path in encrypted_run.rglob("*") if path.is_file()]
    assert (encrypted_run / PUBLIC_KEYS) in files
    for owner in owners:
        own = key_path(encrypted_run, owner)
        assert own.stat().st_mode & 0o777 == 0o600
        text = own.read_bytes()
        raw = zmq.utils.z85.decode(text)
        for path in files:
            if path != own:
                data = path.read_bytes()
                assert text not in data, path
                assert raw not in data, path
                assert raw.hex().encode() not in data, path
    from node.traffic.reader import TrafficLogReader

    frames = b"".join(part for frame in TrafficLogReader(encrypted_run / "traffic.mcap") for part in frame.parts)
    assert all(key_path(encrypted_run, owner).read_bytes() not in frames for owner in owners)


@pytest.mark.processes
def test_an_agent_with_the_wrong_key_is_named_by_who_waits_for_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    configuration = dealt(run, table(network={**ENCRYPTED, "deadline": 12.0, "linger": 1.0}))
    key_path(run, 3).write_bytes(zmq.curve_keypair()[1])
    watch = watched(run, configuration)
    words = {failure.process: failure.last_words[0] for failure in watch.failures}
    for neighbour in ("agent-0002", "agent-0004"):
        assert 3 in named(words[neighbour], "nothing received from")
        assert 3 in named(words[neighbour], "not listened to by")
    assert not {message.sender for message in said(run) if isinstance(message, Release)} & {2, 3, 4}


@pytest.mark.processes
def test_the_keys_command_replaces_pairs_and_shows_public_keys_alone(folder: Path) -> None:
    before = {owner: key_path(folder, owner).read_bytes() for owner in (0, 1, 2, None)}
    made = answered("keys", folder, "--json")
    assert made.returncode == 0
    conforms(json.loads(made.stdout), "keys")
    assert set(json.loads(made.stdout)) == {"agent-0000", "agent-0001", "agent-0002", "eavesdropper"}
    for owner, old in before.items():
        new = key_path(folder, owner).read_bytes()
        assert new != old
        assert new.decode() not in made.stdout
        assert key_path(folder, owner).stat().st_mode & 0o777 == 0o600
    assert read_keys(folder, 0, [1]).agents[1].decode() == json.loads(made.stdout)["agent-0001"]
    (folder / PUBLIC_KEYS).unlink()
    refused = answered("keys", folder, "--json")
    assert refused.returncode == 2
    assert "network.encryption" in refused.stderr


@pytest.mark.processes
def test_parts_get_keys_without_being_asked(tmp_path: Path) -> None:
    from node.configuration.public import dump
    from node.configuration.reading import from_table

    written = tmp_path / "small.toml"
    written.write_text(dump(from_table(table())))
    run, parts = tmp_path / "run", tmp_path / "parts"
    for _ in range(2):
        assert answered("deal", written, "--out", run, "--parts", parts).returncode == 0
    for agent in range(AGENTS):
        part = parts / f"agent-{agent:04d}"
        assert len(read_keys(part, agent, [(agent + 1) % AGENTS], eavesdropper=True).admitted) == 2
        assert list(part.rglob(AGENT_KEY)) == [key_path(part, agent)]
    assert len(read_keys(parts / "eavesdropper", None, range(AGENTS)).agents) == AGENTS
    assert not list(run.rglob(AGENT_KEY))
    assert not (run / EAVESDROPPER_KEY).exists()
