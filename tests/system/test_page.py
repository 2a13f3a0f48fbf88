"""The live page in a real browser: it shows, plays, scrubs, is worked by keys, and can be read by all."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from tests.helpers.viewed import written

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SERIOUS = {"serious", "critical"}
PATIENCE = 600_000
FAULTS = [
    {"after": 40, "fault": "partition", "groups": [0, 1] * 6, "agents": [1, 3]},
    {"after": 80, "fault": "heal", "agents": []},
    {"after": 100, "fault": "kill", "agents": [4]},
]

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM} (scripts/install-chromium)"),
]


@contextlib.contextmanager
def shown(*arguments: str | Path) -> Iterator[str]:
    """The address at which a process of its own shows something; it ends well when it is told to."""
    program = [sys.executable, "-m", "node.cli", "view", *map(str, arguments)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
            assert server.wait() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with shown(written(tmp_path_factory.mktemp("log") / "ring.mcap", 12, 20, FAULTS)) as address:
        yield address


@contextlib.contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[Page]:
    """The page once the whole log is drawn; nothing may be wrong on its console, and nothing asked from elsewhere."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    page.wait_for_selector("body[data-whole]")
    yield page
    assert not wrong
    assert len(asked) > 5
    assert all(url.startswith(address) for url in asked)
    context.close()


def moment(page: Page) -> float:
    return float(page.evaluate("Number(document.getElementById('time').value)"))


def drawn(page: Page) -> None:
    """Two pictures later, what was asked for is on the page."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def set_time(page: Page, part: float) -> None:
    page.evaluate(
        """(part) => {
            const input = document.getElementById("time");
            input.value = part * Number(input.max);
            input.dispatchEvent(new Event("input"));
        }""",
        part,
    )
    drawn(page)


def colours(page: Page) -> int:
    """How many different colours the network has."""
    return int(
        page.evaluate(
            """() => {
                const canvas = document.getElementById("graph");
                const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
                return new Set(new Uint32Array(data.buffer)).size;
            }"""
        )
    )


def test_a_log_is_shown_played_and_scrubbed(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        assert page.text_content("#name") == "ring"
        assert "240 of 240" in page.text_content("#clock")
        assert "capture complete" in page.text_content("#badges")
        assert colours(page) > 10
        set_time(page, 0.0)
        assert "0 of 240" in page.text_content("#clock")
        page.click("#play")
        while moment(page) == 0.0:
            drawn(page)
        page.click("#play")
        stopped = moment(page)
        drawn(page)
        assert moment(page) == stopped
        set_time(page, 0.5)
        assert moment(page) == pytest.approx(0.5 * 2.63, abs=0.01)
        page.select_option("#speed", "50")
        page.click("#play")
        while "240 of 240" not in page.text_content("#clock"):
            drawn(page)
        assert page.get_attribute("#play", "aria-label") == "Play"


def test_keys_do_everything(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        set_time(page, 0.4)
        page.focus("#graph")
        page.keyboard.press("ArrowRight")
        drawn(page)
        one = page.text_content("#clock")
        page.keyboard.press("ArrowRight")
        drawn(page)
        other = page.text_content("#clock")
        count = [int(words.split(" · ")[1].split()[0]) for words in (one, other)]
        assert count[1] == count[0] + 1
        page.keyboard.press("ArrowLeft")
        drawn(page)
        assert page.text_content("#clock") == one
        page.keyboard.press("]")
        page.keyboard.press("]")
        page.wait_for_selector("#agent h2")
        assert page.text_content("#agent h2") == "school <b>1</b>"
        assert page.text_content("#spoken") == "school <b>1</b>, 2 neighbours"
        page.keyboard.press("Escape")
        assert page.locator("#agent h2").count() == 0
        page.keyboard.press("/")
        page.keyboard.type("school <b>7</b>")
        page.keyboard.press("Enter")
        assert page.text_content("#agent h2") == "school <b>7</b>"
        page.focus("#graph")
        before = page.evaluate("document.getElementById('graph').toDataURL()")
        page.keyboard.press("+")
        drawn(page)
        assert page.evaluate("document.getElementById('graph').toDataURL()") != before
        page.keyboard.press("?")
        assert page.is_visible("#keys")
        page.keyboard.press("Escape")
        assert not page.is_visible("#keys")


def test_one_release_down_to_its_bytes(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        page.fill("#search", "3")
        page.keyboard.press("Enter")
        page.wait_for_selector("#agent .rows button")
        page.click("#agent .rows button >> nth=0")
        page.wait_for_selector("#agent .raw")
        shown = page.text_content("#agent .raw")
        assert "00000003 ffffffff" in shown
        assert "24 bytes" in shown
        page.click("#agent .chips button >> nth=0")
        assert page.text_content("#agent h2") == "school <b>2</b>"


def test_faults_are_seen(browser: Browser, address: str) -> None:
    with opened(browser, address) as page:
        listed = page.text_content("#run")
        for words in ("partition into 2 sides", "partition healed", "killed agent 4"):
            assert words in listed
        page.select_option("#colour", "side")
        page.click("#run .list button >> nth=0")  # a click on a fault goes to its moment
        drawn(page)
        assert moment(page) == pytest.approx(0.4, abs=1e-6)
        cut = page.evaluate("document.getElementById('graph').toDataURL()")
        page.click("#run .list button >> nth=1")
        drawn(page)
        assert page.evaluate("document.getElementById('graph').toDataURL()") != cut


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_can_read_it(browser: Browser, address: str, scheme: str) -> None:
    with opened(browser, address, color_scheme=scheme) as page:
        page.fill("#search", "3")
        page.keyboard.press("Enter")
        page.wait_for_selector("#agent .rows button")
        for tab in ("agent", "run", "audit"):
            page.click(f"#tab-{tab}")
            drawn(page)
            found = Axe().run(page).response["violations"]
            assert not [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in SERIOUS]
        ground = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        light = sum(map(int, ground.removeprefix("rgb(").removesuffix(")").split(","))) > 384
        assert light == (scheme == "light")


def test_a_phone(browser: Browser, address: str) -> None:
    with opened(browser, address, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        box = page.locator("#play").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 740
        page.tap("#tab-audit")
        assert page.is_visible("#audit")
        page.tap("#play")
        assert page.get_attribute("#play", "aria-label") == "Pause"
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_nothing_moves_where_a_reader_wants_no_motion(browser: Browser, address: str) -> None:
    with opened(browser, address, reduced_motion="reduce") as page:
        assert page.get_attribute("#play", "aria-label") == "Play"
        set_time(page, 0.5)
        before = page.evaluate("document.getElementById('graph').toDataURL()")
        drawn(page)
        assert page.evaluate("document.getElementById('graph').toDataURL()") == before


def test_943_agents(browser: Browser, tmp_path: Path) -> None:
    with shown(written(tmp_path / "many.mcap", 943, 3)) as address, opened(browser, address) as page:
        assert "943 agents, 943 links" in page.text_content("#about")
        assert "2,829 of 2,829" in page.text_content("#clock")
        page.fill("#search", "942")
        page.keyboard.press("Enter")
        assert page.text_content("#agent h2") == "school <b>942</b>"
        set_time(page, 0.5)
        page.click("#play")
        half = page.text_content("#clock")
        while half == page.text_content("#clock"):
            drawn(page)


def test_a_log_that_grows_is_followed(browser: Browser, tmp_path: Path) -> None:
    """Endpoints: what a replay sends is shown as it arrives, and the page is told of the end."""
    log, socket = written(tmp_path / "ring.mcap", 5, 30), f"ipc://{tmp_path}/replay"
    replay = [sys.executable, "-m", "node.cli", "replay", str(log), "--to", socket, "--rate", "1"]
    with shown(socket) as address:
        context = browser.new_context()
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector(".badge.live")
        subprocess.run(replay, check=True, stdout=subprocess.DEVNULL)
        page.wait_for_selector("body[data-rows='160']")
        page.wait_for_selector(".badge.good")
        assert page.locator(".badge.live").count() == 0
        page.get_by_text("5 agents, 5 links").wait_for()
        context.close()
