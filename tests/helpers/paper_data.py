"""Small files in the shape of the papers' data sets, and the settings that make each figure small enough for a test."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def adult_folder(folder: Path, train: int, test: int) -> Path:
    """``adult.data`` and ``adult.test`` with random people, whose income follows from age and years of education."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count, stop in (("adult.data", train, ""), ("adult.test", test, ".")):
        lines = []
        for age, years, woman in zip(
            random.integers(18, 80, count), random.integers(1, 17, count), random.random(count) < 0.4, strict=True
        ):
            rich = age / 80 + years / 16 + random.normal(scale=0.2) > 1.5
            lines.append(
                f"{age}, Private, {random.integers(20_000, 400_000)}, HS-grad, {years}, Divorced, Sales, Husband, "
                f"White, {'Female' if woman else 'Male'}, 0, 0, {random.integers(10, 60)}, United-States, "
                f"{'>50K' if rich else '<=50K'}{stop}"
            )
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def films_folder(folder: Path, users: int, films: int) -> Path:
    """``u.data``: every user rates half of the films; both users and films lie on one axis of taste."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    taste, kind = random.normal(size=users), random.normal(size=films)
    lines = []
    for user in range(users):
        for film in np.sort(random.choice(films, films // 2, replace=False)):
            rating = np.clip(round(3.5 + taste[user] * kind[film] + random.normal(scale=0.3)), 1, 5)
            lines.append(f"{user + 1}\t{film + 1}\t{int(rating)}\t0")
    (folder / "u.data").write_text("\n".join(lines) + "\n")
    return folder


def small_overrides(figure: str, folder: Path) -> tuple[str, ...]:
    """Overrides that make ``figure`` run in seconds; its files are made below ``folder``."""
    paper, _, name = figure.partition("/")
    if paper == "paper003":
        return ("data.source=breast-cancer", "data.agents=4")
    if paper != "paper004":
        path = folder / "adult"
        if not path.exists():
            adult_folder(path, 300, 100)
        agents = 5 if figure == "paper001/figure1" else 3
        return (f"data.path={path}", f"data.agents={agents}", "clock.updates=6")
    if name.startswith("table1"):
        path = folder / "films"
        if not path.exists():
            films_folder(path, 24, 40)
        return (f"data.path={path}", "topology.neighbours=4", "data.dimension=4")
    few = ("data.agents=8", "data.test_points=10", "data.records=[10,20]")
    return (*few, "topology.gamma=3.0")
