"""The documentation site: `make docs` builds it, and a warning fails the build."""

project = "rankwatch"
html_title = "rankwatch"
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["misc.highlighting_failure"]  # recorded series of Prometheus contain colons
exclude_patterns = ["changes"]
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
templates_path = ["_templates"]
html_show_sphinx = False
html_copy_source = False
copybutton_prompt_text = "$ "
