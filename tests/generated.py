"""Files and parts of files that are made from the code: ``make generated`` writes them, and a test compares."""

import json
import sqlite3
import tempfile
import textwrap
from contextlib import closing
from pathlib import Path

import guides
from alerts_reference import alerts_reference
from commands_reference import commands_reference
from export import page_examples
from metrics.reactions import reactions_table
from monitor.export.series import series_reference
from monitor.settings.json_schema import json_schema
from monitor.storage import schema_version
from places import ROOT
from receivers import message_examples
from settings import plan_examples
from settings_reference import profiles_reference, settings_reference
from texts.examples import golden

_BEGIN, _END = "<!-- generated -->\n", "<!-- end of what is generated -->"
_OPERATOR = "deploy/kubernetes/components/operator/prometheusrule.yaml"
_PROMETHEUS_RULE = """\
# Generated from deploy/prometheus/{source}: change that.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {name}
  labels:
    release: prometheus
spec:
{groups}"""


def texts():
    """Each file with the whole text that it should have."""
    yield ROOT / "config/rankwatch.schema.json", json.dumps(json_schema(), indent=2) + "\n"
    yield _with(ROOT / "docs/reference/commands.md", commands_reference())
    yield _with(ROOT / "docs/reference/configuration.md", settings_reference())
    yield _with(ROOT / "docs/reference/http-profiles.md", profiles_reference())
    yield _with(ROOT / "docs/reference/series.md", series_reference())
    yield _with(ROOT / "docs/reference/metrics.md", reactions_table())
    yield _with(ROOT / "docs/runbooks/index.md", alerts_reference())
    yield ROOT / "tests/texts/golden.txt", golden()
    yield ROOT / f"migrations/sqlite-{schema_version.newest_version()}.sql", sqlite_script()
    yield ROOT / "tests/receivers/golden.txt", message_examples.golden()
    yield ROOT / "tests/settings/golden.txt", plan_examples.golden()
    yield ROOT / "tests/export/golden.txt", page_examples.golden()
    yield (
        ROOT / _OPERATOR,
        "---\n".join(
            map(_prometheus_rule, sorted((ROOT / "deploy/prometheus").glob("*.rules.yml")))
        ),
    )


def sqlite_script():
    """What the migrations do to an empty SQLite database, as statements."""
    version = schema_version.newest_version()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "migrated.db"
        schema_version.upgrade(f"sqlite:///{path}", version)
        with closing(sqlite3.connect(path)) as database:
            made = database.execute(
                "SELECT sql FROM sqlite_master WHERE sql <> '' AND name NOT LIKE 'sqlite^_%' "
                "ESCAPE '^' ORDER BY rowid"
            ).fetchall()
    statements = []
    for (sql,) in made:
        plain = sql.replace("\t", "    ").replace(" \n", "\n")
        statements.append(plain.replace("\n WITHOUT ROWID", " WITHOUT ROWID").strip())
    # An earlier downgrade may have left this table.
    first = statements[0].replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS", 1)
    assert "alembic_version" in first
    last = f"INSERT INTO alembic_version (version_num) VALUES ('{version}')"
    about = f"-- The tables of schema version {version}. `make generated` writes this file.\n"
    return about + ";\n\n".join([first, *statements[1:], last]) + "\n"


def _with(file, part):
    """The file with this part between the two marks."""
    before, _, rest = file.read_text().partition(_BEGIN)
    return file, f"{before}{_BEGIN}\n{part.strip()}\n\n{_END}{rest.partition(_END)[2]}"


def _prometheus_rule(file):
    rules = file.read_text()
    groups = textwrap.indent(rules[rules.index("groups:\n") :], "  ")
    return _PROMETHEUS_RULE.format(
        source=file.name, name=file.name.removesuffix(".rules.yml").replace(".", "-"), groups=groups
    )


if __name__ == "__main__":
    for path, text in (*texts(), *guides.texts()):
        path.write_text(text)
