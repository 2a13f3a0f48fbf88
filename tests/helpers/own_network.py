"""A network of a test's own, so that a capture on its loopback interface holds what the test sends and nothing else."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_NEW_NETWORK = 0x40000000
_SET_FLAGS = 0x8914
_UP = 1
"""CLONE_NEWNET of unshare(2), SIOCSIFFLAGS of netdevice(7), and IFF_UP."""

Result = TypeVar("Result")


def in_own_network(call: Callable[[], Result]) -> Result:
    """Call in a thread with a network of its own, which its child processes share. Needs root."""

    def inside() -> Result:
        if ctypes.CDLL(None, use_errno=True).unshare(_NEW_NETWORK):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        with socket.socket() as any_socket:
            fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sH14x", b"lo", _UP))
        return call()

    with ThreadPoolExecutor(1) as one:
        return one.submit(inside).result()
