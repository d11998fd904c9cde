"""Hooks of the site's build: generated tables, diagrams, docstrings, accessibility, and links beyond the pages."""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from inspect import Signature
from pathlib import Path
from typing import Any, get_type_hints

import mermaidx
import reference
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective
from sphinx.util.inspect import stringify_signature
from sphinx.writers.html5 import HTML5Translator

_ITEM = re.compile(r"^(\S[^:]*?) : (.*)$")
_MENDED = {
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="Pages">',
    '<aside class="toc-drawer">': '<aside class="toc-drawer" aria-label="This page">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    "<pre>": '<pre tabindex="0">',
}
_THEMES = {"only-light": "default", "only-dark": "dark"}


def slug(title: str) -> str:
    """Return the address of a heading, as a code host makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


class Mermaid(SphinxDirective):
    """A diagram, drawn at build time once for each color scheme; needs a line ``accTitle: ...`` for screen readers."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        source = "\n".join(self.content)
        if "accTitle:" not in source:
            raise self.error("a diagram needs a line 'accTitle: ...', its text for readers who do not see it")
        number = self.env.new_serialno("mermaid")
        name = f"{self.env.docname.replace('/', '-')}-{number}"
        return [
            nodes.raw("", _figure(source, f"{name}-{css}", css, theme), format="html") for css, theme in _THEMES.items()
        ]


def _figure(source: str, name: str, css: str, theme: str) -> str:
    try:
        svg = mermaidx.render(source, theme=theme).svg()
    except Exception as error:
        raise ExtensionError(f"the diagram {name} cannot be drawn: {error}") from error
    return f'<div class="diagram {css}">{svg.replace("my-svg", name)}</div>'


def expand(app: Sphinx, docname: str, content: list[str]) -> None:
    """Put generated tables in the place of their comments."""
    content[0] = reference.expand(content[0])


def numpydoc_items(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Turn items of the form ``name : description`` into a name and an indented description.

    The types stand in the signatures, so docstrings give the description in the place of the type, also of a result.
    """
    section = ""
    found: list[str] = []
    if what == "class" and (inherited := reference.inherited(obj)):
        if "Attributes" not in lines:
            lines += ["", "Attributes", "----------"]
        begin = lines.index("Attributes") + 2
        lines[begin:begin] = inherited
    for number, line in enumerate(lines):
        if number + 1 < len(lines) and re.fullmatch(r"-{3,}", lines[number + 1]):
            section = line
            line = {"Attributes": "Parameters", "Returns": "", "Yields": ""}.get(line, line)
        elif section in ("Returns", "Yields"):
            if re.fullmatch(r"-{3,}", line):
                line = f":{section.lower()}:"
            elif line:
                line = f"    {line}"
        item = _ITEM.match(line) if section in ("Parameters", "Attributes") else None
        found += [item[1], f"    {item[2]}"] if item else [line]
    lines[:] = found


def plain_types(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, result: str | None
) -> tuple[str, None] | None:
    """Write the types of fields in a signature without their validators."""
    if what != "class" or not is_dataclass(obj):
        return None
    hints, given = get_type_hints(obj), Signature.from_callable(obj)
    fields = [
        of.replace(
            annotation=hints.get(of.name, of.annotation),
            default={} if repr(of.default) == "<factory>" else of.default,
        )
        for of in given.parameters.values()
    ]
    return stringify_signature(Signature(fields), unqualified_typehints=True), None


def inline_formula(translator: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula within a line as MathML, which needs no script."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block_formula(translator: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula of its own lines as MathML."""
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def links_beyond_pages(app: Sphinx, doctree: nodes.document) -> None:
    """Copy files of the repository that a page links to, and keep only the text of a link to a page that is excluded.

    The changelog links to pages as they were, so the text is kept of each that is gone.
    """
    env = app.env
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node["reftype"] != "myst" or node.get("reftarget") in env.found_docs:
            continue
        if node["refdomain"] == "doc":
            page, path = node["reftarget"], env.doc2path(node["reftarget"])
        else:
            page, path = env.relfn2path(node["reftarget"].partition("#")[0], env.docname)
            page = page.removesuffix(".md")
            if page.lower() in env.found_docs:  # a file at the top that the site includes: SECURITY.md
                node["refdomain"], node["reftarget"], node["reftargetid"] = "doc", page.lower(), None
                continue
        inside = Path(path).is_relative_to(env.srcdir)
        if Path(path).is_file() and not inside:
            copied = addnodes.download_reference("", "", *node.children, reftarget=f"/{page}.md", refdomain=None)
            node.replace_self(copied)
        elif Path(path).is_file() or env.docname == "project/changelog":
            node.replace_self(node.children)


def mend_accessibility(app: Sphinx, error: Exception | None) -> None:
    """Name the landmarks of the theme, and let keys scroll code and tables, in all pages of the site."""
    for page in Path(app.outdir).rglob("*.html") if error is None else ():
        text = page.read_text(encoding="utf-8")
        for old, new in _MENDED.items():
            text = text.replace(old, new)
        page.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("mermaid", Mermaid)
    app.add_html_math_renderer("mathml", (inline_formula, None), (block_formula, None))
    app.connect("source-read", expand)
    # Before the files to copy are collected.
    app.connect("doctree-read", links_beyond_pages, priority=100)
    app.connect("build-finished", mend_accessibility)
    app.connect("autodoc-process-docstring", numpydoc_items, priority=100)
    app.connect("autodoc-process-signature", plain_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
