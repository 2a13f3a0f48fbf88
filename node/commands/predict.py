"""``sottovoce predict``: uses an agent's final model on new rows, with the run's scaling."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer

from node.commands.documents import document_text
from node.folder.manifest import read_manifest
from node.places import agent_folder


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.", show_default=False)],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Rows, as CSV with a header.", show_default=False)],
    agent: Annotated[int, typer.Option(help="The agent whose model predicts.", show_default=False)],
    model: Annotated[
        str, typer.Option(help="together: the last model; finish: after the free finish. Default: finish, if any.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Predict with an agent's final model.

    Example: sottovoce predict runs/schools --agent 3 pupils.csv
    """
    manifest = read_manifest(run)
    from coordinator_free.agents.registry import algorithm
    from coordinator_free.problem.losses import loss
    from node.configuration.reading import load_dealt
    from node.folder.canaries import without_canaries
    from node.folder.run import read_final
    from node.results.prediction import PredictionError, features_of, words_of
    from node.results.prediction import predict as predict_rows

    if not 0 <= agent < manifest.agents:
        raise PredictionError(f"--agent {agent}: the run has agents 0 to {manifest.agents - 1}")
    configuration = load_dealt(run / "config.toml")
    models = {"together" if name == "model" else name: array for name, array in read_final(run, agent).items()}
    if not models:
        raise PredictionError(f"agent {agent} left no final model: {agent_folder(run, agent) / 'final.npz'}")
    kind = model or ("finish" if "finish" in models else "together")
    if kind not in models:
        raise PredictionError(f"--model {kind}: agent {agent} has {' and '.join(models)}")
    features = without_canaries(manifest.features)
    rows = features_of(configuration, features, file)
    data = configuration.data
    used = models[kind][: len(features)]
    found = predict_rows(loss(configuration.learning.loss), used, rows, words_of(data), data.middle)
    covered = not configuration.private or (
        kind == "together" and algorithm(configuration.learning.algorithm).releases_its_model
    )
    if as_json:
        print(document_text({"agent": agent, "model": kind, "covered_by_epsilon": covered, "predictions": found}))
        return
    if not covered:
        print("this model was never released and is not covered by epsilon: nor is what it predicts", file=sys.stderr)
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(found[0])
    for row in found:
        table.writerow(value if isinstance(value, str) else f"{value:.10g}" for value in row.values())
