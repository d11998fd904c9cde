"""Settings of the documentation's site: `make docs` builds it into docs/_build/html."""

from __future__ import annotations

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS / "_ext")]

project = "Crenel"
author = "The authors of Crenel"
version = release = re.findall(
    r'^__version__ = "(.+)"', (DOCS.parent / "crenel" / "__init__.py").read_text("utf-8"), re.M
)[0]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "site_hooks"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "dollarmath", "tasklist"]
myst_heading_anchors = 4
# A fence ```mermaid is a diagram here and on a code host.
myst_fence_as_directive = ["mermaid"]
# Addresses of headings are those that a code host makes, so that a link works in both.
myst_heading_slug_func = "site_hooks.slug"

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
# A name of the package stands for the module behind it.
python_use_unqualified_type_names = True
napoleon_numpy_docstring = True
napoleon_google_docstring = False

highlight_language = "none"
html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"Crenel {version}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
