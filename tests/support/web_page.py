"""Contents of a web page, and faults in its markup."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

_VOID = {"meta", "br", "hr", "img", "input", "link"}
_LANDMARKS = {"header", "nav", "main", "footer"}


class Page(HTMLParser):
    """A page, read strictly.

    Attributes
    ----------
    problems : what is not well-formed, what is loaded from elsewhere, and what a screen reader cannot find its way by
    tables : (header, rows) by caption; one caption is one table
    text : all that is written, markup and style left out
    """

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.problems: list[str] = []
        self.tables: dict[str, tuple[list[str], list[list[str]]]] = {}
        self.text = ""
        self._open: list[str] = []
        self._ids: Counter[str] = Counter()
        self._meant: set[str] = set()
        self._tags: Counter[str] = Counter()
        self._headings: list[int] = []
        self._rows: list[list[str]] = []
        self._caption = ""
        if not text.startswith("<!DOCTYPE html>\n<html lang="):
            self.problems.append("begins with no doctype and language")
        self.feed(text)
        self.close()
        self._judge()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._tags[tag] += 1
        self._look(tag, given)
        if tag in ("h1", "h2", "h3", "h4"):
            self._headings.append(int(tag[1]))
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("th", "td"):
            self._rows[-1].append("")
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._look(tag, {name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"</{tag}> ends what is not open")
        if tag in ("th", "td", "text"):
            self.text += "\n"
        if tag == "table":
            if self._caption in self.tables:
                self.problems.append(f"two tables are named {self._caption}")
            self.tables[self._caption] = (self._rows[0], self._rows[1:])

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "style":
            for word in ("@import", "url(", "expression"):
                if word in data:
                    self.problems.append(f"the style has {word}")
            return
        self.text += data
        if "caption" in self._open:
            self._caption += data
        elif self._open and self._open[-1] in ("th", "td"):
            self._rows[-1][-1] += data

    def _look(self, tag: str, given: dict[str, str]) -> None:
        if tag in ("script", "link", "img", "iframe", "object", "embed", "base", "form"):
            self.problems.append(f"holds <{tag}>")
        for name, value in given.items():
            if name in ("href", "xlink:href") and value.startswith("#"):
                self._meant.add(value[1:])
            elif name in ("src", "srcset", "href", "xlink:href", "data", "action") or name.startswith("on"):
                self.problems.append(f"<{tag}> has {name}")
            if name in ("aria-labelledby", "aria-describedby"):
                self._meant |= set(value.split())
            if "url(" in value:
                if not value.split("url(")[1].startswith("#"):
                    self.problems.append(f"<{tag}> loads {name}")
                self._meant.add(value.split("url(#")[1].split(")")[0])
        if "id" in given:
            self._ids[given["id"]] += 1
        if tag == "th" and given.get("scope") not in ("col", "row"):
            self.problems.append("a header of a table has no scope")
        if tag == "svg" and (given.get("role") != "img" or not {"aria-labelledby", "aria-describedby"} <= given.keys()):
            self.problems.append("a picture has no text alternative")

    def _judge(self) -> None:
        if self._open:
            self.problems.append(f"is not closed: {self._open}")
        self.problems += [f"the identifier {name} is there {n} times" for name, n in self._ids.items() if n > 1]
        self.problems += [f"nothing is named {name}" for name in sorted(self._meant - self._ids.keys())]
        self.problems += [f"there is not one <{tag}>" for tag in ("title", "h1", *_LANDMARKS) if self._tags[tag] != 1]
        for before, after in zip([0, *self._headings], self._headings, strict=False):
            if after > before + 1:
                self.problems.append(f"h{after} follows h{before}")
        if self._tags["svg"] != self._tags["figure"]:
            self.problems.append("a picture is in no figure")
