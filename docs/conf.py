"""The documentation site: `make docs` builds it, and a warning fails the build."""

from pathlib import Path
from typing import Any

project = "rankwatch"
html_title = "rankwatch"
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]  # recorded series of Prometheus contain colons
exclude_patterns = ["_parts", "changes"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
templates_path = ["_templates"]
html_show_sphinx = False
html_copy_source = False
copybutton_prompt_text = "$ "

# What the theme leaves out for people who use a keyboard or a screen reader. And styles inside of
# pages, which the daemon does not allow.
_REPLACED = {
    ' style="display: none;"': ' class="unseen"',
    ' style="opacity: 50%"': ' opacity="0.5"',
    '<p class="caption" role="heading">': '<p class="caption" role="heading" aria-level="2">',
    '<aside class="sidebar-drawer">': '<aside class="sidebar-drawer" aria-label="all pages">',
    '<aside class="toc-drawer': '<aside aria-label="this page" class="toc-drawer',
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<th class="head"><p></p></th>': "<td></td>",
}


def _complete(app: Any, error: Exception | None) -> None:  # noqa: ANN401 - Sphinx is not installed
    if error is None:
        for path in Path(app.outdir).rglob("*.html"):
            text = path.read_text()
            for before, after in _REPLACED.items():
                text = text.replace(before, after)
            path.write_text(text)


def setup(app: Any) -> None:  # noqa: ANN401 - likewise
    """Sphinx calls this."""
    app.connect("build-finished", _complete)
