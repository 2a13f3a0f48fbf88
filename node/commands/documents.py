"""What ``--json`` prints: strict JSON with a version, as the schemas in ``node/schemas`` describe it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

VERSION = 1
"""Of every document of a command that has no version of its own."""


def document_text(document: Mapping[str, Any]) -> str:
    """Return a document as JSON text, its version first; NaN and infinity, which JSON has not, are null."""
    return json.dumps(_strict({"version": VERSION, **document}), indent=1, allow_nan=False)


def _strict(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _strict(held) for key, held in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(held) for held in value]
    return value
