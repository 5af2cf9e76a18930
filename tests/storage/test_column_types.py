"""Any text is stored and read back; instants are instants."""

from datetime import UTC, datetime, timezone

import pytest
from hypothesis import given, strategies as st

import factories
from factories import HOUR, SLOT
from monitor.storage.column_types import MAX_KEY_BYTES, escape, stored_name, unescape
from storage.worked import claimed, evidence, fired, result, runs_of, transitions

HOSTILE = [
    "",
    " ",
    "a\x00b",
    "\u2400",
    "\u24000",
    "\ud800",
    "🦜",
    "e\u0301",
    "é",
    "Robert'); DROP TABLE runs;--",
    "{{ x }}",
    "%s %(a)s",
    "\\N",
    "tab\tline\n",
    "\u202eright-to-left",
    "x" * 10_000,
    "ü" * 10_000,
    "x" * 9_999 + "y",
]

any_text = st.text(st.characters(exclude_categories=()), max_size=300)


ESCAPED = {
    "plain": "plain",
    "ünïcode 🦜": "ünïcode 🦜",
    "a\x00b": "a\u24000b",
    "\u2400": "\u2400\u2400",
    "\ud800": "\u2400d800",
}


def test_only_what_a_database_refuses_is_escaped():
    assert {text: escape(text) for text in ESCAPED} == ESCAPED


@given(any_text)
def test_escaped_text_is_storable_and_comes_back(text):
    assert "\x00" not in escape(text)
    escape(text).encode()
    assert unescape(escape(text)) == text


@given(any_text, any_text)
def test_different_names_have_different_keys(one, other):
    assert (stored_name(one) == stored_name(other)) is (one == other)


@given(st.integers(0, 900), any_text)
def test_a_key_fits_into_an_index_and_a_name_read_back_has_the_same_key(times, text):
    stored = stored_name(text * times)

    assert len(stored.encode()) <= MAX_KEY_BYTES
    assert stored_name(unescape(stored)) == stored


def test_names_and_texts_with_any_content_are_stored(store):
    comparison = "\x00\ud800; DROP TABLE runs;--"
    claim = claimed(store, comparison=comparison, owner=comparison, config_hash=comparison)
    states, causes = zip(
        *(
            fired(
                comparison=comparison,
                segment=name,
                reason=name,
                labels={name: name},
                runbook_url=name,
                dedup_key=name,
            )
            for name in HOSTILE
        ),
        strict=True,
    )
    kept = tuple(
        evidence(
            position=position,
            user=name,
            baseline=(name, "x"),
            candidate=(name,),
            scores={name: 0.5},
        )
        for position, name in enumerate(HOSTILE)
    )
    summaries = tuple(
        factories.summary(segment=name, metric=name, statistics={name: 1.0}) for name in HOSTILE
    )
    stored = result(
        claim,
        reason=comparison,
        summaries=summaries,
        evidence=kept,
        states=states,
        transitions=causes,
    )
    assert store.runs.finish(stored, receivers=HOSTILE)

    (latest,) = store.history.latest([comparison])
    assert (latest.comparison, latest.reason, latest.owner) == (comparison,) * 3
    assert store.history.evidence(claim.run_id) == kept
    assert [(each.reason, each.labels, each.runbook_url) for each in transitions(store)] == [
        (name, {name: name}, name) for name in HOSTILE
    ]
    assert [each for each in latest.summaries if len(each.segment) < 120] == [
        s for s in summaries if len(s.segment) < 500
    ]


def test_instants_are_read_back_in_utc_and_need_a_time_zone(store):
    east = datetime(2024, 1, 8, 3, 0, 0, 123456, tzinfo=timezone(9 * HOUR))
    claimed(store, east)
    claimed(store)
    with pytest.raises(ValueError, match="no time zone"):
        claimed(store, datetime(2024, 1, 8))  # noqa: DTZ001 - the point

    found = [each.slot for each in runs_of(store)]
    assert found == [SLOT, east]
    assert {each.tzinfo for each in found} == {UTC}
