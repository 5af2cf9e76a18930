"""Answers that are none, and requests that cannot be made, are told as what they are."""

from types import SimpleNamespace

import pytest
from pydantic import ValidationError

from monitor.model.rankings import CoverageReason
from monitor.sources.http import HttpSourceOptions
from monitor.sources.http.source import status_failure
from servers.answering import answering
from servers.lists import as_lists, pull_of


@pytest.mark.parametrize("status", [202, 203, 205, 206, 226])
def test_a_success_without_the_whole_list_is_no_answer(status):
    with answering(lambda _, __: (status, ["a"])) as url:
        pull = pull_of("ann", http={"url": f"{url}/{{user}}"})

    assert pull.failures == {"ann": CoverageReason.HTTP_ERROR}
    assert f"answered {status}" in pull.notes[CoverageReason.HTTP_ERROR]


def test_a_status_that_is_none_is_no_answer():
    failure = status_failure(SimpleNamespace(status=0, headers={}))  # type: ignore[arg-type]

    assert failure is not None
    assert (failure.reason, failure.note) == (CoverageReason.HTTP_ERROR, "answered 0")


@pytest.mark.parametrize("status", [200, 201])
def test_a_list_that_comes_with_200_or_201_counts(status):
    with answering(lambda _, __: (status, ["a"])) as url:
        assert as_lists(pull_of("ann", http={"url": f"{url}/{{user}}"})) == {"ann": ["a"]}


def test_a_token_does_not_go_with_user_and_password_in_the_url():
    given = {"url": "http://me:secret@127.0.0.1/{user}", "token": "t"}
    with pytest.raises(ValidationError, match="user and password in url"):
        HttpSourceOptions.model_validate(given)


@pytest.mark.parametrize("host", [f"{'a' * 64}.example", "a..example", f"{'a.' * 130}example"])
def test_a_host_that_is_no_name_was_not_asked(host):
    pull = pull_of("ann", http={"url": f"http://{host}/{{user}}", "retries": 0})

    (note,) = pull.notes.values()
    assert "not in HTTP" not in note
    assert pull.failures == {"ann": CoverageReason.UNREACHABLE}
