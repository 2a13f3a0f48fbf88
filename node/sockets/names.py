"""Endpoints on other hosts: written by a person as host:port, and followed to wherever the host's name points.

Rules that hold here:
- Names are looked up here, in a few threads of their own, and ZeroMQ is given addresses: it would look a name up in the
  thread that moves its messages, and a name server that is slow to answer would silence the agent.
- Each host is looked up once for all agents there.
- A name that moves is followed: a restarted container may have another address. One that is gone keeps its last.
"""

from __future__ import annotations

import heapq
import ipaddress
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping

AGAIN_SECONDS = 0.2
"""Between two questions for a name that does not resolve yet."""
WATCH_SECONDS = 2.0
"""Between two looks whether a name has moved."""
MOST_THREADS = 8
"""So many slow answers are waited for at once."""


class AddressError(ValueError):
    """An address that cannot be one; one line."""


def endpoint(address: str) -> str:
    """The tcp endpoint of ``host:port`` or ``[ipv6]:port``; full endpoints pass. Raises `AddressError`."""
    scheme, separator, rest = address.rpartition("://")
    if separator and scheme not in {"tcp", "ipc"}:
        raise AddressError(f"endpoint {address!r}: accepted are HOST:PORT, tcp://HOST:PORT and ipc://PATH")
    if scheme == "ipc":
        if not rest:
            raise AddressError(f"endpoint {address!r}: ipc:// needs a path")
        return address
    host, colon, port = rest.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        raise AddressError(f"address {address!r}: accepted is HOST:PORT, with a port from 0 to 65535")
    if ":" in host and not bracketed:
        raise AddressError(f"address {address!r}: an IPv6 address is written in brackets, such as [::1]:7700")
    if bracketed:
        try:
            ipaddress.IPv6Address(host[1:-1].partition("%")[0])
        except ValueError:
            raise AddressError(f"address {address!r}: {host} is no IPv6 address") from None
    return f"tcp://{rest}"


def neighbours_of(given: Iterable[str], neighbours: Iterable[int]) -> dict[int, str]:
    """The endpoint of each of ``neighbours``, from ``NUMBER=HOST:PORT`` entries separated by commas.

    An entry without a number is a pattern for all that are not named, in which ``{}`` stands for the number:
    ``agent-{}:7700``. Raises `AddressError` for an entry that names no neighbour, and for one that is missing.
    """
    wanted = sorted(neighbours)
    known: dict[int, str] = {}
    pattern: str | None = None
    for entry in (part.strip() for text in given for part in text.split(",") if part.strip()):
        number, equals, address = entry.partition("=")
        if not equals and "{}" in entry:
            pattern = entry
            continue
        if not equals or not number.isascii() or not number.isdigit():
            raise AddressError(
                f"--neighbours {entry}: accepted are NUMBER=HOST:PORT and a pattern like agent-{{}}:7700"
            )
        if int(number) not in wanted:
            raise AddressError(f"--neighbours {entry}: agent {number} is no neighbour; neighbours: {_listed(wanted)}")
        known[int(number)] = endpoint(address)
    for j in wanted:
        if j not in known:
            if pattern is None:
                raise AddressError(f"--neighbours: no address of agent {j}; neighbours: {_listed(wanted)}")
            known[j] = endpoint(pattern.replace("{}", str(j)))
    return known


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


class NamedEndpoints:
    """Endpoints by agent; each is known once its host's name resolves, and followed where the name moves.

    Of a name with IPv4 addresses the first of them is taken, of one with IPv6 addresses alone the first of those.
    """

    def __init__(self, endpoints: Mapping[int, str]) -> None:
        self._written = dict(endpoints)
        self._found: dict[int, str] = {}
        self._reasons: dict[str, str] = {}
        self._moved: deque[tuple[int, str]] = deque()
        self._agents: dict[str, list[int]] = {}
        for agent, text in self._written.items():
            host = _host(text)
            if host is None:
                self._found[agent] = text
            else:
                self._agents.setdefault(host, []).append(agent)
        self._change = threading.Condition()
        self._closed = False
        self._due = [(0.0, host) for host in self._agents]
        """A heap of the hosts that no thread looks up at the moment, each with the time of its next look."""
        for number in range(min(MOST_THREADS, len(self._agents))):
            threading.Thread(target=self._work, name=f"names {number}", daemon=True).start()

    def lookup(self, agent: int) -> str | None:
        """The endpoint, with an address; None while its name does not resolve or where there is none."""
        return self._found.get(agent)

    def moved(self) -> tuple[int, str] | None:
        """An agent whose endpoint has changed, and the one that it has now; each change once, None if there is none."""
        return self._moved.popleft() if self._moved else None

    def problem(self, agent: int) -> str:
        """Why an agent's endpoint is not known, in words."""
        if agent not in self._written:
            return f"no endpoint of agent {agent}"
        host = _host(self._written[agent])
        reason = self._reasons.get(host or "", "no answer yet")
        return f"the name of agent {agent}, {host}, does not resolve ({reason})"

    def close(self) -> None:
        """Look no name up any more."""
        with self._change:
            self._closed = True
            self._change.notify_all()

    def _work(self) -> None:
        """Look up one host after another, whichever is due."""
        while (host := self._next()) is not None:
            again = WATCH_SECONDS if self._look_up(host) else AGAIN_SECONDS
            with self._change:
                heapq.heappush(self._due, (time.monotonic() + again, host))
                self._change.notify()

    def _next(self) -> str | None:
        """The host that is due, once one is; None after `close`."""
        with self._change:
            while not self._closed:
                now = time.monotonic()
                if self._due and self._due[0][0] <= now:
                    return heapq.heappop(self._due)[1]
                self._change.wait(self._due[0][0] - now if self._due else None)
        return None

    def _look_up(self, host: str) -> bool:
        """Note the address of a host for its agents; returns whether any is known."""
        try:
            address = _address(host)
        except (OSError, UnicodeError) as error:
            self._reasons[host] = getattr(error, "strerror", None) or str(error)
            return self._agents[host][0] in self._found
        for agent in self._agents[host]:
            now = f"tcp://{address}:{self._written[agent].rpartition(':')[2]}"
            before = self._found.get(agent)
            self._found[agent] = now
            if before is not None and before != now:
                self._moved.append((agent, now))
        return True


def _address(host: str) -> str:
    """A numeric address of a name, in brackets if it is one of IPv6; raises OSError."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    for family, *_, place in found:
        if family == socket.AF_INET:
            return str(place[0])
    return f"[{found[0][4][0]}]"


def _host(address: str) -> str | None:
    """The host's name, None where an endpoint has no name but an address or a path."""
    if not address.startswith("tcp://"):
        return None
    host = address.removeprefix("tcp://").rpartition(":")[0]
    if host.startswith("["):
        return None
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return host
    return None
