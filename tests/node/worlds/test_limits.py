"""A folder of sockets that cannot be is refused before anything is dealt."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.configuration.reading import from_table
from node.configuration.refusals import ConfigurationError
from node.worlds.launcher import Cluster
from node.worlds.limits import check_socket_paths
from tests.helpers.clusters import AGENTS, dealt, table


@pytest.mark.parametrize("folder", ["/proc/x", "/dev/null/x"])
def test_a_folder_that_cannot_be_made_is_refused(folder: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"network.folder = '{folder}'.*accepted is a folder"):
        check_socket_paths(from_table(table(network={"folder": folder})))


def test_a_cluster_that_could_not_be_started_can_be_stopped(tmp_path: Path) -> None:
    configuration = dealt(tmp_path / "run", table(network={"folder": "/proc/x"}))
    cluster = Cluster(tmp_path / "run", configuration, AGENTS)
    with pytest.raises(ConfigurationError):
        cluster.start()
    cluster.stop()
