"""Endpoints on other hosts: written by a person as host:port, and looked up by name until the name is known.

Rules that hold here:
- A name is given to ZeroMQ as a name, never as the address found for it: a restarted container may have another one.
- A name that does not resolve yet is asked for again by a thread of its own, so that an agent that waits for one name
  still hears everybody else.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterable, Mapping

AGAIN_SECONDS = 0.2


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
    """Endpoints by agent; each is known once its host's name resolves. ``tcp`` and ``ipc``."""

    def __init__(self, endpoints: Mapping[int, str]) -> None:
        self._endpoints = dict(endpoints)
        self._unresolved = {j: _host(text) for j, text in self._endpoints.items() if _host(text) is not None}
        self._reasons: dict[int, str] = {}
        if self._unresolved:
            threading.Thread(target=self._resolve, name="names", daemon=True).start()

    def lookup(self, agent: int) -> str | None:
        """The endpoint, None while its name does not resolve or where there is none."""
        return None if agent in self._unresolved else self._endpoints.get(agent)

    def problem(self, agent: int) -> str:
        """Why an agent's endpoint is not known, in words."""
        if agent not in self._endpoints:
            return f"no endpoint of agent {agent}"
        reason = self._reasons.get(agent, "not resolved yet")
        return f"the name of agent {agent}, {_host(self._endpoints[agent])}, does not resolve ({reason})"

    def _resolve(self) -> None:
        pause = threading.Event()
        while self._unresolved:
            for agent, host in sorted(self._unresolved.items()):
                try:
                    socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                except (OSError, UnicodeError) as error:
                    self._reasons[agent] = getattr(error, "strerror", None) or str(error)
                else:
                    del self._unresolved[agent]
            pause.wait(AGAIN_SECONDS)


def only_ipv6(address: str) -> bool:
    """Whether the host of a tcp endpoint has IPv6 addresses and no other."""
    host = _host(address)
    if host is None:
        return "[" in address
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return {family for family, *_ in found} == {socket.AF_INET6}


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
