"""The site of the documentation: it builds without a warning, and everybody can read it in a browser, offline."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DIAGRAM = "index"
LARGE = "reference/python"
"""Page of 350 kB, on which axe takes ten times as long as on the others."""

OPENED = (DIAGRAM, "reference/configuration/privacy", LARGE)
"""Pages that a browser opens: one with a diagram, and two with generated text."""

WIDTHS, SCHEMES = (360, 1280), ("light", "dark")

pytest.importorskip("sphinx", reason="sphinx is not installed: make docs (docs/project/development.md)")


# One test, because each process of pytest would build the site for a test of its own.
def test_the_site_builds_without_a_warning_and_everybody_can_read_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", str(tmp_path / "read"), "docs"]
    site = tmp_path / "html"
    done = subprocess.run([*command, str(site)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # The diagram is drawn for both color schemes, and comments have become tables.
    assert (site / f"{DIAGRAM}.html").read_text(encoding="utf-8").count("<svg id=") == 2
    assert "oldest_waiting" in (site / "reference" / "metrics.html").read_text(encoding="utf-8")

    reason = "is not installed: apt install chromium, and make browser (docs/project/development.md)"
    playwright = pytest.importorskip("playwright.sync_api", reason=f"playwright {reason}")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=f"axe {reason}")
    if CHROMIUM is None:
        pytest.skip(f"chromium {reason}")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        for width in WIDTHS:
            for scheme in SCHEMES:
                # Axe sees the large page at each width and in each scheme, and the others in all pairs of both.
                left_out = {LARGE} if WIDTHS.index(width) != SCHEMES.index(scheme) else set()
                context = browser.new_context(
                    viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
                )
                problems = {
                    page: problems_of(context, site, page, width, None if page in left_out else axe) for page in OPENED
                }
                assert not any(problems.values()), (width, scheme, problems)
                context.close()
        tab = browser.new_context(offline=True).new_page()
        tab.goto((site / "search.html").as_uri() + "?q=max_clusters")
        tab.wait_for_selector("ul.search li a", timeout=30_000)
        assert "castle" in tab.inner_text("ul.search")
        browser.close()


def problems_of(context: Any, site: Path, page: str, width: int, axe: Any) -> list[object]:
    """Return requests beyond the site, messages, excess width and, by axe, violations of accessibility of a page."""
    tab = context.new_page()
    problems: list[object] = []
    tab.on("request", lambda of: problems.append(of.url) if not of.url.startswith((site.as_uri(), "data:")) else None)
    tab.on("console", lambda message: problems.append(message.text))
    tab.goto((site / f"{page}.html").as_uri())
    # Wide tables and code scroll in frames of their own.
    if (needed := tab.evaluate("document.documentElement.scrollWidth")) != width:
        problems.append(needed)
    own = [*problems]  # axe reads style sheets, which Chromium refuses for files, with a message
    violations = axe.Axe().run(tab).response["violations"] if axe else []
    tab.close()
    return own + [(found["id"], found["nodes"][0]["html"]) for found in violations]
