"""The page in a real browser: a Chromium that is installed, on a telephone and a desk, light, dark and in print."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crenel.evidence.report.distributions import Came
from crenel.evidence.report.page import ReportPage
from tests.evidence.report.test_page import ATTACK
from tests.support.published import ILLNESSES, POLICY, Release, about, block, flow, outputs

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "is not installed: apt install chromium, and make browser (docs/project/development.md)"

playwright = pytest.importorskip("playwright.sync_api", reason=f"playwright {MISSING}")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=f"axe {MISSING}")
if CHROMIUM is None:
    pytest.skip(f"chromium {MISSING}", allow_module_level=True)

MADE = [
    Release(tuple((20 + n % 50, n * 100, n % 9, ILLNESSES[i % 5], 3 * n + i) for i in range(3)), kind, n)
    for n, kind in enumerate(["cluster", "split", "cluster", "reused"] * 15)
]
SUPPRESSED = [Release(((44, 4300, 8, "cold", 900 + n),), "generalized", n) for n in range(6)]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page on which each part has something to show."""
    made = [*MADE, *SUPPRESSED]
    found = ReportPage(outputs(made), about(warnings=("suppressed: 12% of the tuples",)))
    came = Came(found.axes, POLICY)
    came.add(block(made))
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(found.html(flow(made), came=came, attacks=[ATTACK]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=CHROMIUM)
        yield made
        made.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_everybody_can_read_the_page(browser: Any, page: Path, tmp_path: Path, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    tab = context.new_page()
    requests: list[str] = []
    said: list[str] = []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.goto(page.as_uri())
    assert requests == [page.as_uri()]
    assert said == []
    # Nothing is wider than the page, and no picture's text is cut off by its frame.
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert tab.evaluate(CUT_OFF) == []
    paper, ink = tab.evaluate(COLORS)
    assert (brightness(paper) > brightness(ink)) == (scheme == "light")
    assert abs(brightness(paper) - brightness(ink)) > 150
    found = axe.Axe().run(tab).response
    assert [(violation["id"], violation["impact"]) for violation in found["violations"]] == []
    tab.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 50_000
    context.close()


def test_print_is_dark_on_white_and_holds_every_table(browser: Any, page: Path, tmp_path: Path) -> None:
    context = browser.new_context(viewport={"width": 718, "height": 1000}, color_scheme="dark", offline=True)
    tab = context.new_page()
    tab.goto(page.as_uri())
    tab.emulate_media(media="print")
    paper, ink = tab.evaluate(COLORS)
    assert brightness(paper) == 255
    assert brightness(ink) < 60
    assert tab.evaluate(CLIPPED) == []
    tab.pdf(path=tmp_path / "page.pdf", format="A4")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    context.close()


COLORS = """
[getComputedStyle(document.documentElement).backgroundColor, getComputedStyle(document.querySelector('svg text')).fill]
"""

CLIPPED = """
[...document.querySelectorAll('.scroll')].filter(table => table.scrollWidth > table.clientWidth + 1)
  .map(table => table.getAttribute('aria-label'))
"""

CUT_OFF = """
[...document.querySelectorAll('svg text')].filter(text => {
  const word = text.getBoundingClientRect(), frame = text.closest('svg').getBoundingClientRect();
  return word.left < frame.left - 1 || word.right > frame.right + 1 || word.top < frame.top - 1
    || word.bottom > frame.bottom + 1;
}).map(text => text.textContent)
"""


def brightness(color: str) -> float:
    """From 0, black, to 255, of ``rgb(r, g, b)``."""
    red, green, blue = (int(part) for part in color[color.index("(") + 1 : -1].split(",")[:3])
    return 0.299 * red + 0.587 * green + 0.114 * blue
