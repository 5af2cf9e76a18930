"""Writes components/operator/prometheusrule.yaml from ../prometheus/*.rules.yml: python deploy/kubernetes/generate.py."""  # noqa: INP001 - a script

from __future__ import annotations

import textwrap
from pathlib import Path

_HERE = Path(__file__).parent
_RULES = _HERE.parent / "prometheus"
TARGET = _HERE / "components" / "operator" / "prometheusrule.yaml"
_OBJECT = """\
# Written by generate.py from deploy/prometheus/{source}: change that.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {name}
  labels:
    release: prometheus
spec:
{groups}"""


def text() -> str:
    """The file's text: one PrometheusRule a file of rules."""
    return "---\n".join(_object(path) for path in sorted(_RULES.glob("*.rules.yml")))


def _object(path: Path) -> str:
    rules = path.read_text(encoding="utf-8")
    groups = textwrap.indent(rules[rules.index("groups:\n") :], "  ")
    return _OBJECT.format(source=path.name, name=path.name.removesuffix(".rules.yml").replace(".", "-"), groups=groups)


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
