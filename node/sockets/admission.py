"""Which processes may listen: answers ZeroMQ's question for each client that shows a key (ZAP, ZeroMQ RFC 27).

Rules that hold here:
- A key that is not named is refused. The sockets enforce their domain: while no answer comes, no client is admitted.
- No thread: the owner of the sockets answers when it looks at them, and a handshake waits until then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any, Final

import zmq
from zmq.utils import z85

ADDRESS: Final = "inproc://zeromq.zap.01"
DOMAIN: Final = b"sottovoce"


class Admission:
    """The door of one ZeroMQ context: admits the public keys ``admitted`` (Z85), counts those it ``refused``."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], admitted: Collection[bytes]) -> None:
        self._admitted = frozenset(z85.decode(key) for key in admitted)
        self.refused = 0
        self.socket = context.socket(zmq.REP)
        self.socket.linger = 0
        self.socket.bind(ADDRESS)

    def answer(self) -> None:
        """Answer the questions that have come since; never blocks."""
        with contextlib.suppress(zmq.Again):
            while True:
                question = self.socket.recv_multipart(zmq.NOBLOCK)
                admitted = _shows_a_key(question) and question[6] in self._admitted
                self.refused += not admitted
                status, text = (b"200", b"OK") if admitted else (b"400", b"not named")
                request = question[1] if len(question) > 1 else b""
                self.socket.send_multipart([b"1.0", request, status, text, b"", b""])


def _shows_a_key(question: list[bytes]) -> bool:
    return len(question) == 7 and question[0] == b"1.0" and question[2] == DOMAIN and question[5] == b"CURVE"


def guard(socket: zmq.Socket[Any], public: bytes, private: bytes) -> None:
    """Let a socket that others connect to admit only the keys that the context's `Admission` admits."""
    socket.curve_server = True
    socket.curve_publickey, socket.curve_secretkey = public, private
    socket.zap_domain = DOMAIN
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
