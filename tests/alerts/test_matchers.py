import pytest

from factories import transition
from monitor.alerts.notification_policy import Matcher, matchable_labels, matches_all
from monitor.errors import ConfigError

LABELS = {"segment": "country=UK", "severity": "critical", "team": "ranking"}


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
    ],
)
def test_a_matcher_matches_the_whole_value(text: str, *, matches: bool) -> None:
    assert Matcher.parse(text).matches(LABELS) is matches


def test_a_quoted_value_may_hold_quotes_and_backslashes() -> None:
    assert Matcher.parse(r'team="a\"b\\c"').matches({"team": 'a"b\\c'})
    assert Matcher.parse(r'team=~"a\"\d+"').matches({"team": 'a"12'})


@pytest.mark.parametrize("text", ["", "severity", "=x", "1a=x", "severity=~(", "a b=c", "x=" + "y" * 1000])
def test_what_is_no_matcher_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is no matcher: write name=value|is no regular expression"):
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


@pytest.mark.parametrize("pattern", ["a)(b", "(?=a)", r"(a)\1", "a{1001}", "[", "a\ud800"])
def test_an_expression_that_cannot_be_bounded_or_read_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError, match="is no regular expression"):
        Matcher.parse(f"segment=~{pattern}")


def test_what_no_database_could_store_is_matched_all_the_same() -> None:
    assert Matcher.parse("segment=~a.+z").matches({"segment": "a\ud800\x00\nz"})
