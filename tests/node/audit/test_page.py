"""The page of an audit: its figures and sentences, and nothing that a name could smuggle into it."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

from node.audit.page import audit_page, sentences
from tests.helpers.audited_runs import audited
from tests.helpers.command import answered

VOID = {"meta", "br"}
OPTIONAL = {"p", "h1", "h2", "html"}


class _Balanced(HTMLParser):
    """Notes which elements are open; an end that does not fit fails."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_shows_every_agent_both_bounds_and_the_trade_off(private):
    found = audited(private, trials=200)
    page = audit_page(found).decode()
    checker = _Balanced()
    checker.feed(page)
    assert checker.open == []
    for agent in found.agents:
        for figure in (agent.accounted, agent.attacked, agent.attacked_if_charged):
            assert f"<td>{figure:.3f}</td>" in page
    for column in re.findall(r"<th>(.*?)</th>", page)[1:]:
        assert f"<dt>{column}</dt>" in page, "each column is explained"
    assert page.count("<svg") == 1
    assert "prefers-color-scheme:dark" in page
    assert not re.search(r"(src|href)=", page), "the page needs nothing else"


def test_no_attack_reaches_below_what_the_accountant_allows_but_by_chance(private):
    """Each error is a rate of 8,000 runs and more: four deviations are 0.023."""
    [curve] = [agent.trade_off for agent in audited(private, trials=500).agents if agent.trade_off is not None]
    allowed = dict(curve.accountant)
    grid = sorted(allowed)
    for wrong, missed in curve.attack:
        nearest = min(grid, key=lambda level: abs(level - wrong))
        assert missed >= allowed[nearest] - 0.023 - 3.0 * abs(nearest - wrong)
    assert curve.accountant[0][1] > 0.99
    assert curve.accountant[-1][1] == 0.0


def test_it_says_what_was_shown_and_what_was_not(private):
    found = audited(private, trials=200)
    told = " ".join(sentences(found))
    for word in ("Shown: 8 of 8 agents", "Claimed: an epsilon of at most 2.00", "Tested: the noise of", "Not shown:"):
        assert word in told
    bad = replace(found, name="<script>", findings=("a <b> breach",))
    page = audit_page(bad).decode()
    assert "<script>" not in page
    assert "a &lt;b&gt; breach" in page
    assert "Findings: 1" in page


def test_the_command_leaves_the_page_for_its_owner_alone(private):
    assert answered("audit", private, "--trials", "50").returncode == 0
    assert (private / "audit.html").stat().st_mode & 0o777 == 0o600
    assert answered("audit", private, "--trials", "50", "--as", "agent:1").returncode == 0
    assert (private / "audit-as-1.html").exists()
