"""Noise that is the same in every run of a statistical test, so that a test has passed once and for all or fails."""

from __future__ import annotations

from pathlib import Path

from coordinator_free.privacy.noise import simulation_secret


def with_known_noise(folder: Path, seed: int = 0) -> Path:
    """The dealt run, each agent's secret exchanged for one from ``seed``: no agent may have started yet."""
    secrets = sorted(folder.glob("agents/agent-*/secret"))
    assert secrets, f"no secrets in {folder}"
    for agent, secret in enumerate(secrets):
        secret.write_bytes(simulation_secret(seed, agent))
    return folder
