"""What a neighbour's message that never ends does to who listens: a known limit, shown.

    python benchmarks/fuzz/endless.py [--megabytes 200]

A TCP socket that speaks ZMTP sends an agent's sockets (`node.sockets.agent_sockets.Post`) parts that each say that
more follow. Prints one JSON document: ``sent_mb``; ``grew_mb``, resident memory of the process, which also sends;
``messages``, how many the listener was given meanwhile. ZeroMQ bounds a part (ZMQ_MAXMSGSIZE) and counts whole
messages (ZMQ_RCVHWM); it gives a listener no part before the last is here, so that no rule of the listener's own can
end it.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from pathlib import Path

from node.sockets.agent_sockets import Post

DIMENSION = 500
PART = b"\x03" + (8 * DIMENSION).to_bytes(8) + bytes(8 * DIMENSION)
"""Flags "more" and "long", length, and a body that is within what one part may have."""
PATIENCE = 5.0
"""Seconds without room for another byte after which the listener has stopped it."""


def greet(peer: socket.socket) -> None:
    """The greeting of ZMTP 3.1 with the NULL mechanism, as a PUB, until the first subscription is here."""
    peer.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    ready = b"\x05READY" + b"\x0bSocket-Type" + (3).to_bytes(4) + b"PUB"
    peer.sendall(b"\x04" + bytes([len(ready)]) + ready)
    heard = b""
    while len(heard) < 64 or b"READY" not in heard:
        heard += peer.recv(4096)


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=200)
    options = parser.parse_args()
    post = Post(1, expected=(), dimension=DIMENSION)
    messages = sent = 0
    with socket.create_server(("127.0.0.1", 0)) as door:
        post.connect(f"tcp://127.0.0.1:{door.getsockname()[1]}", 2)
        peer, _ = door.accept()
        with peer:
            peer.settimeout(PATIENCE)
            greet(peer)
            before = resident_mb()
            try:
                while sent < options.megabytes * 1_000_000:
                    peer.sendall(PART)
                    sent += len(PART)
                    messages += len(post.drain(64))
            except OSError as stopped:
                print(f"stopped: {stopped}", file=sys.stderr)
            grew = resident_mb() - before
    post.close()
    print(json.dumps({"sent_mb": round(sent / 1e6), "grew_mb": round(grew), "messages": messages}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
