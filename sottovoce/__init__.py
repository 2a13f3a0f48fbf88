"""sottovoce from Python: build a configuration, run it, read what it left, and write algorithms of one's own.

Example::

    import sottovoce

    configuration = sottovoce.load("examples/schools.toml", ["privacy.epsilon=1"])
    run = sottovoce.run(configuration, "runs/schools-1")
    print(run)
    table = run.releases_table()      # pyarrow; .to_pandas() for pandas

Names are imported when they are first used: ``import sottovoce`` alone loads nothing else. This package may import all
others; none of them imports it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator_free.agent import Activation, Agent, Halt, Setting
    from coordinator_free.algorithm import Algorithm
    from coordinator_free.privacy.mechanism import Mechanism
    from coordinator_free.privacy.mechanisms import Gaussian, Laplace
    from coordinator_free.problem.losses import Loss, LossError
    from coordinator_free.problem.objective import LocalProblem
    from coordinator_free.release import Release
    from node.audit.report import Audit
    from node.audit.verify import Verdict
    from node.configuration.refusals import ConfigurationError
    from node.configuration.sections import Configuration
    from node.folder.manifest import Manifest, RunFolderError
    from node.hello import Hello
    from node.traffic.format import Frame, TrafficLogError
    from node.wire import Done
    from node.worlds.progress import Progress
    from node.worlds.steps import RunFailure
    from sottovoce.budgets import Bought, calibrate, epsilon
    from sottovoce.configurations import configure, load
    from sottovoce.logs import ReceivedFrame, listen, log_table, read_log
    from sottovoce.running import run, run_async, watch
    from sottovoce.runs import Run, open_run

__all__ = [
    "Activation",
    "Agent",
    "Algorithm",
    "Audit",
    "Bought",
    "Configuration",
    "ConfigurationError",
    "Done",
    "Frame",
    "Gaussian",
    "Halt",
    "Hello",
    "Laplace",
    "LocalProblem",
    "Loss",
    "LossError",
    "Manifest",
    "Mechanism",
    "Progress",
    "ReceivedFrame",
    "Release",
    "Run",
    "RunFailure",
    "RunFolderError",
    "Setting",
    "TrafficLogError",
    "Verdict",
    "__version__",
    "calibrate",
    "configure",
    "epsilon",
    "listen",
    "load",
    "log_table",
    "open_run",
    "read_log",
    "run",
    "run_async",
    "watch",
]

_PLACES = {
    "coordinator_free.agent": ("Activation", "Agent", "Halt", "Setting"),
    "coordinator_free.algorithm": ("Algorithm",),
    "coordinator_free.privacy.mechanism": ("Mechanism",),
    "coordinator_free.privacy.mechanisms": ("Gaussian", "Laplace"),
    "coordinator_free.problem.losses": ("Loss", "LossError"),
    "coordinator_free.problem.objective": ("LocalProblem",),
    "coordinator_free.release": ("Release",),
    "node.audit.report": ("Audit",),
    "node.audit.verify": ("Verdict",),
    "node.configuration.refusals": ("ConfigurationError",),
    "node.configuration.sections": ("Configuration",),
    "node.folder.manifest": ("Manifest", "RunFolderError"),
    "node.traffic.format": ("Frame", "TrafficLogError"),
    "node.hello": ("Hello",),
    "node.wire": ("Done",),
    "node.worlds.steps": ("RunFailure",),
    "node.worlds.progress": ("Progress",),
    "sottovoce.budgets": ("Bought", "calibrate", "epsilon"),
    "sottovoce.configurations": ("configure", "load"),
    "sottovoce.logs": ("ReceivedFrame", "listen", "log_table", "read_log"),
    "sottovoce.running": ("run", "run_async", "watch"),
    "sottovoce.runs": ("Run", "open_run"),
}
_HOME = {name: module for module, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("sottovoce")
    if name not in _HOME:
        raise AttributeError(f"module 'sottovoce' has no attribute {name!r}")
    found = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
