"""The build that a run was made on: what bit-for-bit claims depend on."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import TypedDict

import numpy as np


class Build(TypedDict):
    """What bit-for-bit claims depend on. ``packages`` are versions by name."""

    python: str
    packages: dict[str, str]
    blas: dict[str, object]
    processor: str
    machine: str
    system: str


def build() -> Build:
    """What bit-for-bit claims depend on: versions, the linear algebra library, the processor."""
    names = ("numpy", "scipy", "networkx", "pyzmq", "msgpack", "mcap", "lz4", "pydantic")
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return {
        "python": platform.python_version(),
        "packages": {name: importlib.metadata.version(name) for name in names},
        "blas": {key: blas.get(key) for key in ("name", "version", "openblas configuration")},
        "processor": _processor(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())


def same_build(recorded: Build) -> bool:
    """Whether ``recorded``, the `build` of a run, is this build; packages that are no longer used do not count."""
    here = build()
    packages = {name: recorded.get("packages", {}).get(name) for name in here["packages"]}
    return here == {**recorded, "packages": packages}
