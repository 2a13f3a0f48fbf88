"""A resolved configuration as text: the whole, for the run's folder, and the public part, on which agents agree.

Rules that hold here:
- A setting that the run does not use is not written: no file claims an observer that nothing provides.
"""

from __future__ import annotations

import hashlib
import json

from node.configuration.sections import Configuration
from node.configuration.usage import unused
from node.configuration.writing import table_lines
from node.untyped import Tree


def used_settings(configuration: Configuration) -> Tree:
    """The settings that the run uses, by section, defaults filled in; plain values."""
    document = configuration.model_dump(mode="json", by_alias=True, exclude_none=True)
    for path in unused(configuration):
        section, _, key = path.partition(".")
        document[section].pop(key, None)
    if not configuration.audit.canaries:
        del document["audit"]
    if not document["learning"].get("parameters", True):
        del document["learning"]["parameters"]
    return document


def dump(configuration: Configuration) -> str:
    """The configuration as TOML, defaults filled in; what is not set or not used is left out."""
    lines: list[str] = []
    for name, section in used_settings(configuration).items():
        if name == "event":
            for event in section:
                lines += table_lines("[[event]]", event)
        else:
            lines += table_lines(f"[{name}]", section)
    return "\n".join(lines)


def public_part(configuration: Configuration) -> Tree:
    """What all agents must agree on, in public: no paths, no names, no seeds, nothing of one machine."""
    document = used_settings(configuration)
    kept = ("source", "row_scaling", "centring", "as_published")
    return {
        "data": {key: document["data"][key] for key in kept if key in document["data"]},
        "topology": {key: value for key, value in document["topology"].items() if key not in {"path", "seed"}},
        "learning": document["learning"],
        "clock": document["clock"],
        "privacy": document["privacy"],
    }


def dump_public(configuration: Configuration) -> str:
    """The public part as TOML: what a traffic log carries."""
    return "\n".join(
        "\n".join(table_lines(f"[{name}]", section)) for name, section in public_part(configuration).items()
    )


def public_digest(configuration: Configuration, topology: str = "") -> bytes:
    """32 bytes that agents compare in their ``hello``: over the public part and the graph's digest."""
    document = {"public": public_part(configuration), "topology": topology}
    return hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).digest()
