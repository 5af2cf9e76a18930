"""The way from a file to settings: what is read as what, and what cannot be read at all.

Each file in bad/ breaks the rule it is named for; its first lines say exactly what must be
reported, and on which line."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from monitor.model.errors import ConfigError
from monitor.model.rules import Keep
from monitor.settings.loader import load_settings, parse_settings
from settings.minimal import MINIMAL, expected, load_comparison, load_text


def problems(text):
    try:
        parse_settings(text, name="x.yaml", base_dir=Path("/nowhere"), environ={})
    except ConfigError as error:
        return str(error).splitlines()
    return []


def failing(path):
    with pytest.raises(ConfigError) as caught:
        load_settings(path, {})
    return str(caught.value)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rankwatch.yaml"


WORDS = "no on yes off 2024-01-11 1_000 2024 007 1.10 true 0x1F 1e3"


def test_unquoted_text_stays_as_it_was_written():
    for word in WORDS.split():
        assert load_comparison(MINIMAL.replace("name: feed", f"name: {word}")).name == word


def test_words_for_true_and_false_are_understood_where_one_is_wanted():
    for words, meaning in (("no off false", (False, Keep.NONE)), ("yes on true", (True, Keep.ALL))):
        for word in words.split():
            found = load_comparison(f"{MINIMAL}    dry_run: {word}\n    keep_scores: {word}\n")
            assert (found.dry_run, found.keep_scores) == meaning


def test_variables_are_replaced_by_text_numbers_and_parts_and_expanded_once():
    more = "k: ${K}\n    description: for ${WHO:-everybody} $${K} $5 ${A}\n    seed: ${SEED:-7}"
    for seed in ({}, {"SEED": ""}):
        found = load_comparison(f"{MINIMAL}    {more}\n", K="25", A="${B}", **seed)
        assert (found.k, found.seed) == (25, 7)
        assert found.description == "for everybody ${K} $5 ${B}"


def test_a_number_may_be_quoted_or_begin_with_a_zero():
    for written, number in (("010", 10), ('"20"', 20)):
        assert load_comparison(f"{MINIMAL}    k: {written}\n").k == number


def test_a_secret_from_a_variable_is_never_read_as_anything_but_text():
    for secret in ["12345678901234567890", "true", "null", "0123", "1e5", "*x", "a: b # c"]:
        url = 'url: "http://a.internal/{user}"'
        for keys in ('headers: {X-Key: "${TOKEN}"}', "headers:\n          X-Key: ${TOKEN}"):
            text = MINIMAL.replace(
                f"{{http: {{{url}}}}}", f"\n      http:\n        {url}\n        {keys}"
            )
            http = load_comparison(text, TOKEN=secret).baseline.kind_options
            assert http.headers["X-Key"].get_secret_value() == secret


def test_a_secret_with_whitespace_is_in_no_error():
    for secret in ["a  secret word", "a secret\nword", "a\tsecret word"]:
        with pytest.raises(ConfigError) as caught:
            load_text(f'{MINIMAL}    metrics: ["${{TOKEN}}"]\n', TOKEN=secret)
        assert "secret" not in str(caught.value)
        assert "..." in str(caught.value)


def test_anchors_and_merges_share_settings():
    text = MINIMAL.replace(
        "comparisons:\n  - name: feed\n",
        "x-all: &all {k: 20, seed: 3}\nx-some: &some {<<: *all, seed: 4}\n"
        "comparisons:\n  - <<: *some\n    name: feed\n    k: 30\n",
    )
    (comparison,) = load_text(text).comparisons
    # A mapping's own keys count before those that it merges.
    assert (comparison.k, comparison.seed) == (30, 4)


def test_a_problem_in_a_shared_part_is_reported_on_its_own_line():
    text = MINIMAL.replace(
        "comparisons:\n  - name", "x-all: &all\n  k: many\ncomparisons:\n  - <<: *all\n    name"
    )
    said = r"^rankwatch\.yaml:2: comparisons\[0\]\.k: must be a whole number$"
    with pytest.raises(ConfigError, match=said):
        load_text(text)


def test_relative_paths_start_at_the_files_directory_and_an_absolute_database_stays_where_it_is(
    path,
):
    path.write_text(MINIMAL)
    loaded = load_settings(path, {})
    users = loaded.comparisons[0].users.kind_options
    assert users.path == str(path.with_name("users.csv"))
    assert loaded.database.get_secret_value() == f"sqlite:///{path.with_suffix('.db')}"
    loaded = load_text(f"database: sqlite:////var/lib/rankwatch.db\n{MINIMAL}")
    assert loaded.database.get_secret_value() == "sqlite:////var/lib/rankwatch.db"


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(path):
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.replace("\n", "\r\n").encode())
    assert load_settings(path, {}).comparisons[0].name == "feed"


def test_missing_files_directories_and_devices_are_one_line_that_says_what_to_do(path):
    advice = "write one with `rankwatch init`, or name another with --config"
    assert failing(path) == f"{path}: no such file: {advice}"
    for other in (path.parent, Path("/dev/zero")):
        assert failing(other) == f"{other}: cannot be read: it is not a file"


def test_a_configuration_may_come_through_a_pipe():
    """As from `--config <(envsubst < template)`."""
    end, other = os.pipe()
    os.write(other, MINIMAL.encode())
    os.close(other)
    assert load_settings(Path(f"/dev/fd/{end}"), {}).comparisons
    os.close(end)


def test_what_is_no_text_is_one_line(path):
    for content, told in [
        (b"listen: x\nname: caf\xe9\n", ":2: is not UTF-8 text: save it as UTF-8"),
        (b"listen: x\nname: a\x00b\n", ":2: a control character is here: remove it"),
        (
            b"a: " + b"[" * 1000,
            (
                ": is nested too deeply, has an alias inside its own value, or has an escape or a "
                "directive that is out of range"
            ),
        ),
        (b"\xff" * 10_000_000, ": is larger than 1 MiB, which is too large for a configuration"),
    ]:
        path.write_bytes(content)
        assert failing(path) == f"{path}{told}"


@given(
    st.integers(min_value=0, max_value=len(MINIMAL) - 1),
    st.sampled_from("ab:-[]{}&*!|>'\"\n\t ,#~0"),
)
def test_one_changed_character_never_ends_in_anything_but_a_configuration_error(position, char):
    text = MINIMAL[:position] + char + MINIMAL[position + 1 :]
    assert all(line.startswith("x.yaml") for line in problems(text))


def test_of_a_thousand_problems_the_first_hundred_are_listed_and_the_others_counted():
    with pytest.raises(ConfigError) as caught:
        load_text(MINIMAL + "listen: 127.0.0.1:1\n" * 1000)
    lines = str(caught.value).splitlines()
    first = MINIMAL.count("\n") + 2
    assert [int(line.split(":")[1]) for line in lines[:-1]] == list(range(first, first + 100))
    assert lines[-1].endswith(": and 899 more problems")


BAD = sorted((Path(__file__).parent / "bad").glob("*.yaml"))


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_configuration_is_reported_exactly_so_and_its_secrets_never_are(path, monkeypatch):
    monkeypatch.setattr("monitor.settings.schedule._FURTHEST_DAYS", 366)
    wanted = expected(path.read_text())
    assert wanted, "the file must say what it expects"
    said = failing(path)
    places = [":" if re.match(r"\d+: ", line) else ": " for line in wanted]
    assert said.splitlines() == [
        f"{path}{place}{line}" for place, line in zip(places, wanted, strict=True)
    ]
    assert "hunter2" not in said
