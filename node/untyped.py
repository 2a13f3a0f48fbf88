"""Names for mappings whose keys no type here can know; a mapping whose keys are known is a dataclass or a TypedDict."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
"""A JSON object, as the writer of a typed value makes it, or as a reader has not checked it yet."""
Tree = dict[str, Any]
"""Settings as TOML has them: which there are follows from the algorithm that they name, which may be a plug-in."""
Changes = dict[str, Any]
"""New values of settings, each by its ``section.key``."""
