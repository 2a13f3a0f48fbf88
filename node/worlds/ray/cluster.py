"""A Ray cluster as a run needs it: the connection, the nodes that can hold a host, and an actor on each.

Rules that hold here:
- An actor is placed by the resources of its node: one CPU, and the ``node:ADDRESS`` that every node of Ray has. Where
  nodes have the resource ``sottovoce``, only these are used.
- Nothing is downloaded and no usage is reported; a cluster that is started here listens on the loopback alone.
- An error of Ray becomes one line.
"""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from node.configuration.refusals import ConfigurationError
from node.worlds.steps import RunFailure

MARK: Final = "sottovoce"
"""A resource of nodes that are meant for runs."""
PLACING: Final = 120.0
"""Seconds that Ray has to start the actors."""
ANSWER: Final = 30.0
"""Seconds that an actor has for an answer."""
_ADDRESS = re.compile(r"ray(://[^\s/]+:[0-9]{1,5})?")


def check_address(address: str) -> None:
    """Raise `ConfigurationError` for an address that is none, and where Ray is not installed."""
    if not _ADDRESS.fullmatch(address):
        raise ConfigurationError(f"--on {address}: accepted are ray (the cluster of this machine) and ray://HOST:PORT")
    for package in ("ray", "cryptography"):
        if importlib.util.find_spec(package) is None:
            raise ConfigurationError(
                f"--on {address}: the package {package} is not installed; accepted is an installation with the extra "
                '"ray": pip install "sottovoce[ray]"'
            )


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Connect to a cluster. Where ``ray`` finds none on this machine, one is started, and ends with this process.

    Raises
    ------
    ConfigurationError
        As `check_address`.
    RunFailure
        If no cluster answers.
    """
    check_address(address)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    from node.worlds.ray.actor import NAMESPACE

    quiet: dict[str, Any] = {"namespace": NAMESPACE, "log_to_driver": False, "logging_level": logging.ERROR}
    told = signal.getsignal(signal.SIGTERM)
    try:
        if address != "ray":
            ray.init(address, **quiet)
        else:
            _on_this_machine(quiet)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, told)  # that of Ray ends with another exit status
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
        raise RunFailure(f"--on {address}: no Ray cluster answers: {_first_line(error)}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _on_this_machine(quiet: Mapping[str, Any]) -> None:
    import ray

    try:
        ray.init("auto", **quiet)
    except ConnectionError:
        ray.init("local", include_dashboard=False, _node_ip_address="127.0.0.1", **quiet)


def addresses() -> list[str]:
    """The addresses of the nodes that can hold a host, in ascending order.

    Raises
    ------
    RunFailure
        If there is none.
    """
    import ray

    alive = [node for node in ray.nodes() if node["Alive"]]
    marked = [node for node in alive if node["Resources"].get(MARK)]
    able = [node for node in marked or alive if node["Resources"].get("CPU", 0) >= 1]
    found = sorted({str(node["NodeManagerAddress"]) for node in able}, key=ipaddress.ip_address)
    if not found:
        raise RunFailure(f"no node of the Ray cluster can hold a host: {len(alive)} nodes, none with a CPU")
    return found


def alive() -> set[str]:
    """The addresses of the nodes that are in the cluster now."""
    import ray

    return {str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]}


def actor(run: str, name: str, hosts: Mapping[str, str]) -> Any:
    """The actor of a host, which is started if there is none. It outlives this process.

    Parameters
    ----------
    run
        The run's name in hexadecimal digits.
    name
        The host's name.
    hosts
        The address of each host, by name.
    """
    import ray

    from node.worlds.ray.actor import NAMESPACE, Actor, actor_name

    placed = ray.remote(Actor).options(
        name=actor_name(run, name),
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        num_cpus=1,
        resources={f"node:{hosts[name]}": 0.001},
        max_restarts=-1,
        max_task_retries=0,
    )
    return placed.remote(run, name, hosts[name], [other for other in hosts if other != name])


def ask(actors: Mapping[str, Any], method: str, *given: object, seconds: float = ANSWER) -> dict[str, Any]:
    """Call a method of several actors at once; returns the answers of those that answered in time.

    Raises
    ------
    RunFailure
        If the method failed.
    """
    import ray

    asked = {getattr(one, method).remote(*given): name for name, one in actors.items()}
    done, _ = ray.wait(list(asked), num_returns=len(asked), timeout=seconds) if asked else ([], [])
    answered = {}
    for reference in done:
        try:
            answered[asked[reference]] = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            raise RunFailure(f"{asked[reference]}: {_first_line(error.cause)}") from None
        except ray.exceptions.ActorDiedError as error:
            raise RunFailure(f"{asked[reference]}: its actor could not be started: {_last_line(error)}") from None
        except ray.exceptions.RayError:
            continue  # it starts again, or its node is gone
    return answered


def call(one: Any, name: str, method: str, *given: object, seconds: float = PLACING) -> Any:
    """Call a method of one actor.

    Raises
    ------
    RunFailure
        If it failed, or did not answer in time.
    """
    found = ask({name: one}, method, *given, seconds=seconds)
    if name not in found:
        raise RunFailure(f"{name}: its actor did not answer within {seconds:.0f} s")
    return found[name]


def end(actors: Mapping[str, Any]) -> None:
    """End actors for good."""
    import ray

    for one in actors.values():
        ray.kill(one)


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1].strip() if lines else type(error).__name__
