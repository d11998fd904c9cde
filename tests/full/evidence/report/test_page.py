"""The page as people and browsers read it: whole, by itself, with nothing raw, and with numbers that agree."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evidence.report.test_page import html, number
from tests.support.published import ILLNESSES, START, TOWNS, Release, made_releases
from tests.support.web_page import Page


def require_whole(text: str) -> None:
    """Require that a page is well formed and needs no other file."""
    assert Page(text).problems == []
    assert len(text.encode()) < 2_000_000
    assert "http" not in text.replace("http-equiv", "")


@settings(max_examples=4)
@given(made_releases(), st.sampled_from(((False, True), (True, False), (False, False))))
def test_a_page_without_an_audit_log_or_input_is_whole(releases: list[Release], known: tuple[bool, bool]) -> None:
    require_whole(html(releases, audited=known[0], came=known[1]))


@settings(max_examples=8)
@given(made_releases())
def test_every_page_is_whole_has_the_numbers_of_its_outputs_and_nothing_raw(releases: list[Release]) -> None:
    text = html(releases)
    require_whole(text)
    page = Page(text)
    require_numbers_of_the_outputs(page, releases)
    for label in TOWNS.labels[: TOWNS.leaves]:
        assert label not in page.text
    for illness in ILLNESSES[3:]:
        assert illness not in page.text
    digits = page.text.replace(",", "")
    assert not [r for r in releases if str(START + r.hour * 3_600_000 + 1234) in digits]


def require_numbers_of_the_outputs(page: Page, releases: list[Release]) -> None:
    """Require that numbers are those of the outputs, and that suppressed rows are in no distribution."""
    left = [r for r in releases if r.kind != "generalized"]
    rows = sum(len(r.tuples) for r in left)
    went = {row[0]: number(row[1]) for row in page.tables["Rows by outcome"][1]}
    assert went["published, generalized"] == rows
    assert went.get("published fully generalized: outlier", 0) == len(releases) - len(left)
    assert went["total"] == rows + len(releases) - len(left) + 9
    for name in ("Rows by the size of their group", "Rows by l of illness"):
        found = page.tables.get(name)
        assert sum(number(row[1]) for row in found[1]) == rows if found else not rows
    if left:
        facts = dict(page.tables["Sizes of groups"][1])
        assert number(facts["minimum persons of the group"]) == min(len(r.tuples) for r in left)
        mean = sum(r.loss * len(r.tuples) for r in left) / rows
        assert f"on average {mean:.0%} of the detail" in page.text
