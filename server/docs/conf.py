"""How Sphinx makes pages of these sources; `scripts/docs` runs it, on a copy with what is written from the code."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aliquot

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(aliquot.__file__).resolve().parents[2]

project = "Aliquot"
author = "the Aliquot authors"
copyright = author
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
version = release

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["generated"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.xref_ambiguous"]

default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
nitpick_ignore_regex = [("py:.*", ".*")]
"""Types of other libraries have pages of their own, which are not here."""

html_theme = "furo"
html_title = f"Aliquot {release}"
html_static_path = ["look"]
html_css_files = ["pages.css"]
html_js_files = ["scrolled.js"]
html_copy_source = False
html_search_scorer = str(Path(__file__).parent / "look" / "search_order.js")
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5f9e", "color-brand-content": "#1f5f9e"},
    "dark_css_variables": {"color-brand-primary": "#7ab8f0", "color-brand-content": "#7ab8f0"},
    "footer_icons": [],
}
templates_path = ["look"]
CAPTION = 'class="caption" role="heading"'


def setup(app: "Sphinx") -> None:
    """Run after the theme has made the navigation."""
    app.connect("html-page-context", give_captions_a_level, priority=900)


def give_captions_a_level(*of_the_page: Any) -> None:
    """Sphinx makes the captions of lists of pages headings, for which screen readers need a level."""
    _app, _name, _template, context, _tree = of_the_page
    for part in ("body", "furo_navigation_tree"):
        if part in context:
            context[part] = context[part].replace(CAPTION, f'{CAPTION} aria-level="2"')
