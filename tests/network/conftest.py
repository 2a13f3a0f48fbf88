"""Every test here fails if it leaves a process or a socket behind."""

from tests.node.leaks import nothing_left_behind  # noqa: F401
