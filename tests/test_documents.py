"""The documents name files that exist, link to pages that exist, and repeat the rules of import as they are."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_IN_THE_REPOSITORY = {"examples/data/ml-100k"}


def named(page: Path) -> str:
    return page.name


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", without_code(page.read_text())):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_file_of_the_repository_that_a_page_names_exists(page: Path) -> None:
    folders = "node|coordinator_free|topology|tests|scripts|benchmarks|examples|docs"
    for path in re.findall(rf"\b((?:{folders})/[\w./-]*\w)", without_code(page.read_text())):
        assert (ROOT / path).exists() or path in NOT_IN_THE_REPOSITORY, path


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_subject_of_a_sentence_is_a_noun(page: Path) -> None:
    assert not re.findall(r"(?:^|[.:;] |\| )(?:Who|Whoever|who|whoever) [a-z]+", page.read_text(), flags=re.MULTILINE)


def test_the_architecture_repeats_the_contract() -> None:
    contract = ConfigParser()
    contract.read(ROOT / ".importlinter")
    text = (ROOT / "docs" / "architecture.md").read_text()
    for rules in ("node", "mathematics"):
        layers = contract[f"importlinter:contract:{rules}"]["layers"].strip()
        assert f"```\n{layers}\n```" in text
