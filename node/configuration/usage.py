"""Which settings a configuration does not use, and why.

Rules that hold here:
- A setting that changes nothing misleads: it is refused, and no run's folder shows it.
- What is refused is a value other than the default: a default that is written out claims nothing more.
"""

from __future__ import annotations

from coordinator_free.agent import Activation
from coordinator_free.agents.averages.arrangement import MASKED
from coordinator_free.agents.registry import KNOWN, algorithm
from node.configuration.data import unused_by_source
from node.configuration.learning import settings_of
from node.configuration.refusals import shown
from node.configuration.sections import Configuration

_OF_A_KIND = {
    "angle-similarity": ("gamma", "threshold"),
    "nearest-neighbours": ("neighbours",),
    "private-similarity": ("neighbours", "share"),
    "file": ("path",),
}
_DRAWN = ("random-regular", "erdos-renyi", "watts-strogatz", "barabasi-albert", "random-geometric")


def unused(c: Configuration) -> dict[str, str]:
    """Each setting, given or not, that changes nothing in this configuration, with the reason."""
    parts = {
        "run": _run(c),
        "learning": _learning(c),
        "privacy": _privacy(c),
        "clock": _clock(c),
        "topology": _topology(c),
        "data": unused_by_source(c.data),
        "network": _network(c),
    }
    return {f"{section}.{key}": why for section, found in parts.items() for key, why in found.items()}


def refused(c: Configuration) -> str | None:
    """One line about a setting that is given and not used; None if there is none."""
    for path, why in unused(c).items():
        name, _, key = path.partition(".")
        section = getattr(c, name)
        value = getattr(section, key)
        if value != type(section).model_fields[key].get_default(call_default_factory=True):
            return f"{path} = {shown(value)}: it would change nothing, because {why}; leave it out"
    return None


def _those(attribute: str) -> str:
    return ", ".join(name for name in KNOWN if getattr(algorithm(name), attribute))


def _run(c: Configuration) -> dict[str, str]:
    if c.private:
        return {}
    return {"simulation": 'privacy.mechanism is "none", so no noise is drawn (name a mechanism, or leave both out)'}


def _learning(c: Configuration) -> dict[str, str]:
    chosen, own = algorithm(c.learning.algorithm), settings_of(c.learning)
    found, weight = {}, chosen.finish_weight
    if weight is not None and weight in type(c.learning).model_fields and not c.learning.finish:
        found[weight] = "learning.finish is false, and it weighs the free finish alone"
    if not chosen.uses_smoothness:
        found["smoothness"] = f"no step of {chosen.name} rests on it (used by {_those('uses_smoothness')})"
    if not chosen.finishes:
        found["finish"] = f"{chosen.name} has no free finish (used by {_those('finishes')})"
    return found if own is None else found | dict(own.idle())


def _privacy(c: Configuration) -> dict[str, str]:
    privacy, chosen = c.privacy, algorithm(c.learning.algorithm)
    way = c.learning.get("aggregation")
    found = {}
    if not c.private:
        why = 'privacy.mechanism is "none" (name a mechanism: laplace, gaussian, gamma-norm)'
        found = {key: why for key in type(privacy).model_fields if key not in ("mechanism", "total_epsilon")}
    elif not chosen.allocates:
        why = f"{chosen.name} divides its budget by itself (used by {_those('allocates')})"
        found = {"allocation": why, "r": why}
    elif privacy.allocation == "uniform":
        found = {"r": 'privacy.allocation = "uniform" has no rate'}
    if not c.data.records_arrive:
        found["uses"] = "without data.arriving or data.arriving_column every record is used from the start to the end"
    if len(chosen.observers) < 2:
        able = ", ".join(name for name in KNOWN if len(algorithm(name).observers) > 1)
        found["observer"] = f"every listener sees each release of {chosen.name} (used by {able})"
    if c.data.source == "synthetic":
        found["total_epsilon"] = "synthetic records belong to no person, so no registry adds up what runs spend on them"
    for key, ways in (("colluders", MASKED), ("dropouts", ("masked-sum",))):
        if way in ways:
            found.pop(key, None)  # masks are made with and without noise
        else:
            able = " or ".join(f'"{one}"' for one in ways)
            found[key] = f"only learning.aggregation = {able} has them (averaging, gradient-descent)"
    return found


def _clock(c: Configuration) -> dict[str, str]:
    chosen = algorithm(c.learning.algorithm)
    if chosen.activation is Activation.POISSON:
        return {}
    able = ", ".join(name for name in KNOWN if algorithm(name).activation is Activation.POISSON)
    return dict.fromkeys(("rate", "drift"), f"{chosen.name} goes in rounds, without a clock (used by {able})")


def _topology(c: Configuration) -> dict[str, str]:
    section, found = c.topology, {}
    if section.kind in _OF_A_KIND:
        takes = _OF_A_KIND[section.kind]
        why = f'topology.kind = "{section.kind}" takes {", ".join(takes)}'
        found = {key: why for key in type(section).model_fields if key not in ("kind", *takes)}
    if section.kind != "file":
        found["path"] = f'only kind = "file" reads a file, not "{section.kind}"'
    if section.kind not in _DRAWN and ":" not in section.kind:
        found["seed"] = f'a graph of kind "{section.kind}" is not drawn (used by {", ".join(_DRAWN)})'
    return found


def _network(c: Configuration) -> dict[str, str]:
    network, found = c.network, {}
    if network.transport == "tcp":
        found["folder"] = 'only network.transport = "ipc" has sockets in a folder'
    else:
        found["host"] = 'only network.transport = "tcp" has a host'
    if algorithm(c.learning.algorithm).activation is not Activation.ROUNDS:
        why = f"{c.learning.algorithm} has no rounds in which an agent waits for its neighbours"
        found |= {"silent": why, "on_silent": why}
    elif network.on_silent == "wait":
        found["silent"] = 'network.on_silent = "wait" has no deadline (used by "stop" and "carry-on")'
    if network.bandwidth is None and all(link.bandwidth is None for link in network.link):
        found |= dict.fromkeys(("bucket", "queue"), "no network.bandwidth limits what passes")
    if network.reordering == 0 and not any(link.reordering for link in network.link):
        found["reordering_delay"] = "network.reordering is 0"
    return found
