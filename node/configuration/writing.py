"""Values and tables as TOML.

No TOML writer is a dependency: this one keeps each list and each inner table within one line, as people write a
configuration.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def table_lines(name: str, table: Mapping[str, Any]) -> list[str]:
    """One ``[name]`` or ``[[name]]`` with its settings, and an empty line; what is None is left out."""
    return [name, *_entries(table), ""]


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{_toml_key(key)} = {toml_value(value)}" for key, value in table.items() if value is not None]


def _toml_key(key: str) -> str:
    bare = key != "" and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if bare else toml_value(key)


def toml_value(value: Any) -> str:
    """A value as TOML, in one line; raises TypeError for what has no form there."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        # json escapes what TOML's basic strings escape; DEL is the one character that only TOML forbids.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    if isinstance(value, Mapping):
        pairs = (f"{_toml_key(str(key))} = {toml_value(item)}" for key, item in value.items() if item is not None)
        return "{" + ", ".join(pairs) + "}"
    raise TypeError(f"a {type(value).__name__} has no form in TOML")
