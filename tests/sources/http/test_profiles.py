"""Each profile sends requests, and reads answers, as the documentation of its API says.

The folder ``profiles`` has recorded requests and answers.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.profiles import PROFILE_FOLDER
from servers.answering import answering
from servers.lists import as_lists, pull_of
from tables import parsed

FILES = sorted(Path(__file__).parent.glob("profiles/*.yaml"), key=lambda path: path.stem)
RECORDED = {path.stem: {"profile": path.stem} | yaml.safe_load(path.read_text()) for path in FILES}


def given(name, server):
    recorded = RECORDED[name]
    url = server.url.replace("//", f"//{recorded.get('login', '')}")
    options = {key: recorded[key] for key in ("profile", "with") if key in recorded}
    return options | {"url": url, "retries": 0} | recorded.get("more", {})


def test_every_profile_has_a_recorded_exchange_with_its_source_and_date():
    assert {each["profile"] for each in RECORDED.values()} == {
        path.stem for path in PROFILE_FOLDER.glob("*.yaml")
    }
    for each in RECORDED.values():
        assert each["documentation"].startswith("https://")
        assert each["seen"]


@pytest.mark.parametrize("name", RECORDED)
def test_a_profile_asks_and_reads_as_recorded(name):
    recorded = RECORDED[name]
    with answering(lambda *_: (200, recorded["answer"])) as server:
        pull = pull_of(*recorded["users"], k=recorded["k"], http=given(name, server))

    (asked,), wanted = server.requests, recorded["request"]
    target = asked.path
    if "recombee" in name:  # it is signed, with the time
        target = target.partition("?")[0]
    assert (asked.method, target) == (wanted["method"], wanted["target"])
    headers = wanted.get("headers", {})
    assert {name: asked.headers.get(name) for name in headers} == headers
    assert json.loads(asked.body or b"null") == wanted.get("body")
    assert as_lists(pull) == recorded["lists"]
    assert pull.versions == recorded.get("versions", {})
    if "scores" in recorded:
        np.testing.assert_array_equal(pull.rankings.scores, recorded["scores"])
    notes = (note.partition(" ")[2] for note in pull.notes.values())
    assert "".join(notes) == recorded.get("note", "")
    assert set(pull.failures.values()) == (set() if recorded["lists"] else {"http_error"})


@pytest.mark.parametrize(
    "name", sorted({each["profile"]: name for name, each in RECORDED.items()}.values())
)
def test_an_answer_with_another_structure_is_malformed_and_its_structure_is_reported(name):
    with answering(lambda *_: (200, {"detail": "moved", "hint": {}})) as server:
        pull = pull_of(*RECORDED[name]["users"], http=given(name, server))

    assert not as_lists(pull)
    assert set(pull.failures.values()) == {"malformed"}
    assert "an object of detail, hint" in pull.notes["malformed"]


TENSORS = parsed("""
    {"shape": [2, 2], "data": ["a"]}
    {"shape": [1000000000, 0], "data": []}
    {"shape": "x"}
    {}
""")


def test_tensors_that_do_not_fit_their_shape_are_malformed_and_never_filled_up():
    for tensor in TENSORS:
        answer = {"outputs": [{"name": "item_ids", **tensor}]}
        with answering(lambda *_, answer=answer: (200, answer)) as server:
            pull = pull_of("ann", "bob", http=given("open-inference", server))
        assert set(pull.failures.values()) == {"malformed"}


def test_a_key_that_is_no_integer_is_not_requested_if_an_integer_is_needed():
    with answering(lambda *_: (200, RECORDED["qdrant"]["answer"])) as server:
        pull = pull_of("42", "ann", k=2, http=given("qdrant", server))

    assert (list(as_lists(pull)), len(server.requests)) == (["42"], 1)
    assert pull.failures == {"ann": "malformed"}


OWN = """
with: {list: {about: its name}, n: {about: how many, default: 5}}
http: {endpoint: "/<list>?n=<n>", method: POST, body: {of: "{user}", n: <n>}, headers: {X-A: a}}
"""
OVER_IT = (
    "{url: http://h/, profile: ./own.yaml, with: {list: feed}, body: {more: 1}, headers: {X-B: b}}"
)


def test_a_custom_profile_is_found_next_to_the_configuration_and_options_override_it(tmp_path):
    (tmp_path / "own.yaml").write_text(OWN)

    read = HttpSourceOptions.model_validate(
        yaml.safe_load(OVER_IT), context={"base_dir": str(tmp_path)}
    )

    assert read.address == "http://h/feed?n=5"
    assert (read.body, set(read.headers)) == ({"of": "{user}", "n": 5, "more": 1}, {"X-A", "X-B"})
