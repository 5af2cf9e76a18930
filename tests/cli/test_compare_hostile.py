"""rankwatch compare: ids and file contents that are written to do harm to a terminal or a reader."""

import json
from pathlib import Path

from forking import Done, rankwatch

HOSTILE = {"\x1b[31mred\x07": ["\x1b]0;title\x07", "\x9b2J"], "two\nlines\u202e": ["[bold]b[/bold]", "tab\t"]}


def compare(*args: str, cwd: Path, encoding: str = "utf-8") -> Done:
    return rankwatch("compare", *args, cwd=cwd, env={"PYTHONIOENCODING": encoding})


def test_neither_an_id_nor_a_file_steers_the_terminal(tmp_path: Path) -> None:
    rows = [{"user_id": user, "items": items, "by": "\x1b[2J"} for user, items in HOSTILE.items()]
    (tmp_path / "hostile.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "binary.csv").write_bytes(b"user_id,items\n\x1b[2J\x07\n")

    shown = compare("hostile.jsonl", "hostile.jsonl", "--worst", "2", "--by", "by", cwd=tmp_path)
    refused = [compare(file, file, "--by", "none", cwd=tmp_path) for file in ("hostile.jsonl", "binary.csv")]

    assert (shown.returncode, [each.returncode for each in refused]) == (0, [2, 2])
    said = "".join(each.stdout + each.stderr for each in (shown, *refused))
    assert {char for char in said if not char.isprintable()} == {"\n"}
    assert "by=\\x1b[2J: " in shown.stdout
    assert "user \\x1b[31mred\\x07 " in shown.stdout
    assert "user two\\nlines\\u202e " in shown.stdout
    assert "[bold]b[/bold]" in shown.stdout


def test_json_is_json_whatever_the_encoding_of_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"user_id": "\xe9", "items": ["\xe9", "\U0001f600"]}))

    done = compare("a.jsonl", "a.jsonl", "--worst", "1", "--json", cwd=tmp_path, encoding="ascii")

    assert json.loads(done.stdout)["worst"][0]["baseline"] == ["\xe9", "\U0001f600"]
