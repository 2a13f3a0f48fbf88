"""The pages of the papers: each item of a paper has a line, and each command on a page exists and runs.

A command with ``runs/NAME`` is run on a small run of ``examples/NAME.toml``; ``FOLDER`` is a folder with small files in
the shape of the data. Figures with their own settings alone are run in small form by
``tests/node/experiments/test_figures.py``; here their command is only checked.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from node.cli import COMMANDS, application
from node.configuration.reading import load
from node.dealing.folder import deal_run
from node.experiments.reproduce.figure import Request
from node.experiments.reproduce.registry import FIGURES, in_form, of_paper, papers, planned
from node.results.scoring import score
from node.worlds.twin import run_twin
from tests.helpers.command import run_cli
from tests.helpers.paper_data import adult_folder, films_folder
from tests.helpers.places import ROOT

pytestmark = pytest.mark.thorough

PAGES = sorted((ROOT / "docs" / "papers").glob("*.md"))
HEADS = ["in the paper", "as published", "as true", "command", "comparison"]
ITEMS = {
    "000": [
        *(f"Algorithm {k}" for k in (1, 2, 3)),
        *(f"Assumption {k}" for k in range(1, 7)),
        *(f"Theorem {k}" for k in (*range(1, 7), 9)),
        *(f"Lemma {k}" for k in (10, 11)),
        *(f"Corollary {k}" for k in ("1.1", "1.2", "2.1", "2.2", "4.1", "6.1", "6.2")),
        *(f"Proposition {k}" for k in (7, 8)),
        *(f"Definition {k}" for k in (1, 2, 3)),
        *(f"Figure {k}" for k in range(1, 9)),
        *(f"Table {k}" for k in (1, 2)),
    ],
    "001": [
        *("Algorithm 1", "Definition 4.1", "Lemma 3.1", "Theorem 3.1", "Theorem 3.2", "Theorem 4.1"),
        *(f"Figure {k}" for k in ("1a", "1b", "2a", "2b", "2c", "2d", "3", "4")),
        *(f"Section {k}" for k in ("6.1", "6.2", "6.3")),
    ],
    "002": [
        *(f"Algorithm {k}" for k in (1, 2)),
        *(f"Theorem {k}" for k in (1, 2, 3)),
        "Corollary 3.1",
        "Definition 1",
        *(f"Assumption {k}" for k in range(1, 7)),
        *(f"Figure {k}" for k in (1, 2, 3)),
    ],
    "003": [
        "Algorithm 1",
        *(f"Definition {k}" for k in (1, 2)),
        *(f"Theorem {k}" for k in (1, 2, 3)),
        "Remark 1",
        "Table 1",
        *(f"Figure {k}" for k in range(1, 17)),
    ],
    "004": [
        *(f"Proposition {k}" for k in (1, 2)),
        *(f"Theorem {k}" for k in (1, 2)),
        *(f"Lemma {k}" for k in (1, 2, 3)),
        *(f"Remark {k}" for k in (1, 2, 3, 4)),
        *(f"Figure {k}" for k in (1, 2, 3, 4)),
        *(f"Section {k}" for k in ("2.1", "6")),
        *("Appendix B", "Table 1", "Eq. (2)"),
    ],
}
"""What the first columns of a page must name."""
SMALL = {
    "adult": ("data.agents=3", "clock.updates=4"),
    "breast": ("learning.local_steps=5",),
    "movielens": ("topology.neighbours=4", "data.dimension=4", "clock.updates=3"),
    "schools": ("clock.updates=3",),
    "synthetic": ("data.agents=8", "clock.updates=3"),
}
"""Overrides that make the examples of each data set small."""


def named(page: Path) -> str:
    return page.stem


def lines_of(page: Path) -> list[list[str]]:
    """The cells of every row of a page's tables, heads and rulers left out."""
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    return [cells for cells in rows if cells != HEADS and set("".join(cells)) - set("-: ")]


def commands_of(page: Path) -> list[str]:
    """Every command on a page, each once."""
    return list(dict.fromkeys(re.findall(r"`(sottovoce [^`]+)`", page.read_text(encoding="utf-8"))))


ALL = [(page, command) for page in PAGES for command in commands_of(page)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data and runs that the commands of the pages name, made when they are first asked for."""
    return tmp_path_factory.mktemp("papers")


def data(folder: Path, films: bool) -> Path:
    path = folder / ("films" if films else "adult")
    if not path.exists():
        films_folder(path, 24, 40) if films else adult_folder(path, 300, 100)
    return path


def small(name: str, given: Sequence[str]) -> list[str]:
    """The overrides that make the example ``name`` small, without settings that a command gives itself."""
    [overrides] = [overrides for source, overrides in SMALL.items() if name.startswith(source)]
    own = {override.partition("=")[0] for override in given}
    if "privacy.uses" in own:
        own.add("clock.updates")  # a record is used in as many releases as there are updates at most
    return [override for override in overrides if override.partition("=")[0] not in own]


def run_of(example: str, folder: Path) -> Path:
    """A small run of ``examples/EXAMPLE.toml`` in the twin."""
    path = folder / "runs" / example
    if not path.exists():
        overrides = small(example, ())
        if not example.startswith(("breast", "schools", "synthetic")):
            overrides.append(f"data.path={data(folder, example.startswith('movielens'))}")
        deal_run(load(ROOT / "examples" / f"{example}.toml", overrides), path)
        run_twin(path)
        score(path)
    return path


def overrides_in(words: Sequence[str]) -> list[str]:
    return [words[k + 1] for k, word in enumerate(words) if word == "--set"]


def arguments(command: str, folder: Path) -> list[str]:
    """The words of a command after ``sottovoce``, in small form."""
    films = "movielens" in command or "paper004" in command
    words = [word.replace("FOLDER", str(data(folder, films))) for word in shlex.split(command)[1:]]
    words = [str(run_of(word.removeprefix("runs/"), folder)) if word.startswith("runs/") else word for word in words]
    examples = [Path(word).stem for word in words if word.startswith("examples/")]
    for example in examples:
        words += [word for override in small(example, overrides_in(words)) for word in ("--set", override)]
    words = [str(ROOT / word) if word.startswith("examples/") else word for word in words]
    if words[0] in ("reproduce", "run"):
        words += ["--out", str(folder / f"out-{abs(hash(command))}")]
        words += [] if "--world" in words else ["--world", "twin"]
    if words[0] == "reproduce":
        words.append("--small")
    if words[0] in ("compare", "tune"):
        words += ["--seeds", "1"] if words[0] == "compare" else ["--instances", "1"]
    return words


def request_of(words: Sequence[str], folder: Path) -> Request:
    return Request("twin", 1, tuple(overrides_in(words)), folder, small=True)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_each_line_of_a_page_is_whole(page: Path) -> None:
    found = lines_of(page)
    assert found
    for cells in found:
        assert len(cells) == len(HEADS), cells
        assert all(cells), f"an empty cell: {cells}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_nothing_of_the_paper_is_without_a_line(page: Path) -> None:
    first = " ".join(f"{cells[0]}," for cells in lines_of(page))
    for item in ITEMS.get(page.stem, ()):
        assert re.search(rf"\b{re.escape(item)}(?![.\d])", first), f"{item} has no line in {page.name}"


@pytest.mark.parametrize(("page", "command"), ALL, ids=[f"{page.stem}:{command[10:]}" for page, command in ALL])
def test_a_command_of_a_page_exists_and_takes_its_options(page: Path, command: str, folder: Path) -> None:
    words = arguments(command, folder)
    assert words[0] in COMMANDS, page.name
    group = typer.main.get_command(application([words[0]]))
    with group.make_context("sottovoce", words) as context:
        called = group.get_command(context, words[0])  # type: ignore[attr-defined]
        assert called is not None
        called.make_context(words[0], words[1:])
    if words[0] == "reproduce":
        asked = request_of(words, folder)
        if words[1] in papers():
            assert of_paper(words[1], asked)
        else:
            assert planned(FIGURES[words[1]], in_form(FIGURES[words[1]], asked))


def runs_elsewhere(command: str) -> bool:
    """Whether it makes one figure or one paper with its own settings, apart from where its data lie."""
    words = shlex.split(command)[1:]
    settings = {override.partition("=")[0] for override in overrides_in(words)}
    return words[0] == "reproduce" and words[1] != "paper002" and settings <= {"data.path", "data.source"}


RUN_HERE = [command for command in dict.fromkeys(command for _, command in ALL) if not runs_elsewhere(command)]


@pytest.mark.slow
@pytest.mark.parametrize("command", RUN_HERE, ids=lambda command: command[10:])
def test_a_command_of_a_page_runs(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert run_cli(*arguments(command, folder)) in (0, None), capsys.readouterr().err
    assert capsys.readouterr().out
