"""``sottovoce new``: a folder with a configuration, a small data file and a plug-in to start from."""

from __future__ import annotations

import csv
import io
import math
import random
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

CLINICS = ("Ash", "Beech", "Cedar", "Elm", "Fir", "Hazel", "Linden", "Maple")


def new(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A folder that does not exist yet, or an empty one.")
    ],
) -> None:
    """Write a configuration, data and a loss of your own to start from.

    Each setting of the configuration has a comment. Nothing is started. The data are made up; put your own file in
    their place.

    Example: sottovoce new demo && sottovoce run demo/clinics.toml
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is not empty: name a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    templates = files("node.commands") / "templates"
    for name in ("clinics.toml", "capped_loss.py"):
        template = templates / f"{name}.txt"  # the package's own modules end in .py
        (folder / name).write_text(template.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "visits.csv").write_text(visits(), encoding="utf-8")
    print(f"{folder}/clinics.toml    the configuration, with a comment at every setting")
    print(f"{folder}/visits.csv      made-up visits to eight clinics: one agent for each clinic")
    print(f"{folder}/capped_loss.py  a loss of your own; clinics.toml says how it is used")
    print(f"\nnow: sottovoce run {folder}/clinics.toml")


def visits(seed: int = 1) -> str:
    """Made-up visits as comma-separated values; the same for the same seed.

    Each clinic has a model of its own near a common one, and between 25 and 120 visits. The columns are clinic, age (18
    to 90), pressure (90 to 190), smoker (yes, no) and pain, a score from 0 to 10.
    """
    draw = random.Random(seed)
    common = (2.0, 1.5, 1.0)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("clinic", "age", "pressure", "smoker", "pain"))
    for clinic in CLINICS:
        own = [weight + draw.gauss(0.0, 0.3) for weight in common]
        for _ in range(round(25 * math.exp(draw.uniform(0.0, 1.57)))):
            age, pressure, smoker = draw.randint(18, 90), draw.randint(90, 190), draw.random() < 0.3
            expected = 4.0 + own[0] * (age - 54) / 36 + own[1] * (pressure - 140) / 50 + own[2] * smoker
            pain = min(10.0, max(0.0, draw.gauss(expected, 1.2)))
            writer.writerow((clinic, age, pressure, "yes" if smoker else "no", f"{pain:.1f}"))
    return text.getvalue()
