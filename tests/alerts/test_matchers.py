import pytest

from factories import transition
from monitor.alerts.notification_policy import Matcher, matchable_labels, matches_all
from monitor.errors import ConfigError

LABELS = {"segment": "country=UK", "severity": "critical", "team": "ranking", "odd": 'a"b\\c', "bare": "a\ud800\x00\nz"}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("severity=critical", True),
        ("severity = critical ", True),
        ('severity="critical"', True),
        ("severity!=critical", False),
        ("severity=crit", False),
        ("segment=country=UK", True),
        ("segment=~country=.*", True),
        ("segment=~country", False),  # the whole value
        ('segment!~"country=(UK|US)"', False),
        ("team=~rank.*|search", True),
        ("absent=", True),
        ("absent!=", False),
        ("absent=~.+", False),
        ("segment=country.UK", False),  # no regular expression
        (r'odd="a\"b\\c"', True),
        (r'odd=~"a\"\w.c"', True),
        ("bare=~a.+z", True),  # what no database could store
    ],
)
def test_a_matcher_matches_the_whole_value(text: str, *, matches: bool) -> None:
    assert Matcher.parse(text).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, "is no matcher: write name=value") for text in ("", "severity", "=x", "1a=x", "a b=c", "x=" + "y" * 1000)),
        # Also what could take for ever, or what nothing could store.
        *((f"a=~{text}", "is no regular expression") for text in ("(", "a)(b", "(?=a)", r"(a)\1", "a{1001}", "[", "a\ud800")),
    ],
)
def test_what_is_no_matcher_is_refused_with_how_to_write_one(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Matcher.parse(text)


def test_an_alert_is_matched_by_our_names_first_and_by_its_rule_s_labels() -> None:
    alert = transition(labels={"team": "ranking", "severity": "none"})
    assert matchable_labels(alert)["severity"] == "critical"
    assert matches_all([Matcher.parse("team=ranking"), Matcher.parse("metric=extended_tau")], alert)
    assert not matches_all([Matcher.parse("team=ranking"), Matcher.parse("severity=none")], alert)
    assert matches_all([], alert)


def test_a_name_from_outside_cannot_become_a_matcher() -> None:
    assert not Matcher.parse("segment=all").matches(matchable_labels(transition(segment='all" or segment=~".*')))


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", ".*.*.*.*.*.*.*x", "(.*a){20}b"])
def test_no_expression_takes_for_ever_on_a_name_of_a_megabyte(pattern: str) -> None:
    matcher = Matcher.parse(f"segment=~{pattern}")
    assert not matcher.matches({"segment": "a" * 1_000_000})
