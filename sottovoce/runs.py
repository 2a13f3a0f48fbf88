"""A run's folder from Python: results, models, releases, ledgers, audit."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator_free.privacy.ledger import Charge
from coordinator_free.release import FloatArray, Release
from node.audit.report import Audit
from node.audit.verify import Verdict
from node.configuration.reading import load_dealt
from node.configuration.sections import Configuration
from node.folder.endings import Failure
from node.folder.ledger import LedgerFile
from node.folder.manifest import Manifest, RunFolderError, read_manifest
from node.folder.run import read_final
from node.folder.spending import Spending, spent
from node.places import agent_folder
from node.results.details import read_details
from node.results.results import Results, read_results
from node.traffic.export import arrow_table, import_pyarrow
from node.traffic.run_logs import frames_of
from node.wire import Refused, decode

if TYPE_CHECKING:
    import pyarrow as pa


class Run:
    """A run that has ended, or one that was broken off.

    Parameters
    ----------
    folder
        The run's folder.

    Raises
    ------
    RunFolderError
        If the folder is no run's.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).absolute()
        self.manifest: Manifest = read_manifest(self.folder)

    @cached_property
    def configuration(self) -> Configuration:
        """The resolved configuration."""
        return load_dealt(self.folder / "config.toml")

    @property
    def agents(self) -> int:
        """The number of agents."""
        return self.manifest.agents

    @cached_property
    def results(self) -> Results:
        """What ``results.json`` holds; raises `RunFolderError` where the run was not scored."""
        return read_results(self.folder)

    @property
    def failures(self) -> list[Failure]:
        """The processes that did not finish, each with its exit status and its last words; empty if all did."""
        return list(self.results.failures)

    def model(self, agent: int) -> FloatArray:
        """The last model of an agent, shape (p,); raises `RunFolderError` where it left none."""
        return self._left(agent, "model")

    def finish(self, agent: int) -> FloatArray:
        """The free finish of an agent, shape (p,). It is not covered by epsilon: keep it where it is.

        Raises
        ------
        RunFolderError
            Where the agent left none.
        """
        return self._left(agent, "finish")

    def models(self) -> FloatArray:
        """The last models of all agents, shape (n, p); NaN where an agent left none."""
        found = [read_final(self.folder, agent).get("model") for agent in range(self.agents)]
        return np.stack([np.full(self.manifest.dimension, np.nan) if one is None else one for one in found])

    def _left(self, agent: int, what: str) -> FloatArray:
        if not 0 <= agent < self.agents:
            raise RunFolderError(f"agent {agent}: the run has agents 0 to {self.agents - 1}")
        found = read_final(self.folder, agent)
        if what not in found:
            raise RunFolderError(f"{self.folder}: agent {agent} left no {what}")
        return found[what]

    def releases(self) -> Iterator[Release]:
        """Every release in the traffic log once, in the order in which it was first received."""
        seen: set[tuple[int, int]] = set()
        for frame in frames_of(self.folder, []):
            try:
                message = decode(frame.parts, self.manifest.run)
            except Refused:
                continue
            if isinstance(message, Release) and (message.sender, message.index) not in seen:
                seen.add((message.sender, message.index))
                yield message

    def traffic_table(self) -> pa.Table:
        """All frames of the traffic log as an Arrow table; raises ValueError where pyarrow is not installed."""
        return arrow_table(frames_of(self.folder, []))

    def releases_table(self) -> pa.Table:
        """The releases of the traffic log, repeats and all, as an Arrow table; ``.to_pandas()`` for pandas.

        Raises
        ------
        ValueError
            Where pyarrow is not installed.
        """
        table = self.traffic_table()
        import pyarrow.compute as pc

        return table.filter(pc.equal(table["kind"], "release"))

    def ledger(self, agent: int) -> list[Charge]:
        """The charges in an agent's ledger, those of earlier runs on the same shard included, in order."""
        with LedgerFile.read(agent_folder(self.folder, agent) / "ledger.jsonl", None) as ledger:
            return ledger.charges()

    def ledger_table(self) -> pa.Table:
        """Every charge of every agent: agent, run, first, last, mechanism, sensitivity, scale.

        Raises
        ------
        ValueError
            Where pyarrow is not installed.
        """
        pyarrow = import_pyarrow("a table of charges")
        rows = [
            {
                "agent": agent,
                "run": charge.run,
                "first": charge.first,
                "last": charge.last,
                "mechanism": None if charge.mechanism is None else charge.mechanism.name,
                "sensitivity": None if charge.mechanism is None else charge.mechanism.sensitivity,
                "scale": None if charge.mechanism is None else charge.mechanism.scale,
            }
            for agent in range(self.agents)
            for charge in self.ledger(agent)
        ]
        return pyarrow.Table.from_pylist(rows)

    @property
    def spent(self) -> Spending:
        """What the ledgers hold: epsilon charged to each agent, the budget, delta."""
        return spent(self.folder)

    def audit(self, *, trials: int = 1000, confidence: float = 0.95, observer: int | None = None) -> Audit:
        """Audit the run: ledgers, noise, and epsilon accounted beside epsilon attacked.

        Parameters
        ----------
        trials
            Runs on each of both datasets that a bound rests on.
        confidence
            Of each lower bound.
        observer
            The agent that looks, with nothing but what it receives; None: an observer of all releases.

        Raises
        ------
        AuditError
            For options that the run does not allow.
        """
        from node.audit.auditor import audit

        return audit(self.folder, trials=trials, confidence=confidence, observer=observer)

    def verify(self) -> Verdict:
        """Execute the run again and compare every release, bit for bit on the build that made it."""
        from node.audit.verify import verify

        return verify(self.folder)

    def __repr__(self) -> str:
        return f"<Run {self.manifest.name!r}: {self.agents} agents, {self.manifest.algorithm}, {self.folder}>"

    def __str__(self) -> str:
        """The table with which ``sottovoce run`` ends."""
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=120).print(self._table())
        return text.getvalue().strip("\n")

    def _repr_html_(self) -> str:
        """The same table for a notebook."""
        from node.results.table import facts, model_rows

        results, details = self.results, read_details(self.folder)
        heads, rows, notes = model_rows(results, details)
        cells = "".join(f"<th>{html.escape(head)}</th>" for head in heads)
        lines = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        told = [f"<b>{html.escape(name)}</b> {html.escape(value)}" for name, value in facts(results, details)]
        below = "<br>".join([*told, *(html.escape(note) for note in notes)])
        title = html.escape(f"{self.manifest.name}: {self.agents} agents, {self.manifest.algorithm}")
        return f"<p>{title}</p><table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table><p>{below}</p>"

    def _table(self) -> Any:
        from node.results.table import render

        return render(self.results, read_details(self.folder))


def open_run(folder: Path | str) -> Run:
    """Open a run's folder; raises `RunFolderError` if it is none."""
    return Run(folder)
