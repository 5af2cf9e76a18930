import shlex
from dataclasses import replace
from functools import partial

from hypothesis import given, strategies as st

from alerts_reference import DEFAULT, UNPAIRED, severities
from deploy.shipped import parse_command
from factories import DAY, transition
from messages import EVERYBODY, URL, finding, message, start
from monitor.alerts.leading_changes import find_lead
from monitor.cli.completion import DEFAULT_CONFIG
from monitor.model.explanation import FaultKind
from monitor.model.rankings import Arm
from monitor.receivers import BUILT_IN
from monitor.receivers.email import mail_page, mail_subject
from monitor.receivers.message.content import content_of
from monitor.receivers.message.safe_text import clean, page_url
from monitor.service.composition import open_wiring
from monitor.service.daemon.outage import DATABASE_AWAY
from monitor.settings.configuration import Settings
from receivers.message_examples import NAMED, OTHER, bodies

content = partial(content_of, external_url=URL)


def subject(each):
    return mail_subject(each, content(each))


def test_each_default_alert_has_its_runbook_in_the_messages_of_all_receivers():
    settings = Settings.model_validate({"external_url": URL, "comparisons": [DEFAULT, UNPAIRED]})
    watched = open_wiring(settings).watched.values()
    rules = {
        rule.alert: rule for each in watched for rule in each.comparison.judging.rules
    }.values()
    assert {rule.alert for rule in rules} == severities().keys() - {DATABASE_AWAY}
    for rule in rules:
        runbook = f"{URL}/docs/runbooks/{rule.alert}"
        sent = bodies(message(start(alert=rule.alert, runbook_url=rule.runbook_url)))
        assert sent.keys() == BUILT_IN.keys()
        assert not [kind for kind, body in sent.items() if runbook not in str(body)]


def test_the_base_of_runbooks_and_the_rule_decide_the_link():
    own = {"alert": "Mine", "metric": "overlap", "below": 0.5, "runbook_url": "https://w.test/mine"}
    comparison = {**DEFAULT, "rules": [own], "default_rules": True}
    base = "https://w.test/rankwatch/"
    settings = {"comparisons": [comparison], "runbook_base_url": base}
    watched = open_wiring(Settings.model_validate(settings)).watched["home-feed"]
    urls = {rule.alert: rule.runbook_url for rule in watched.comparison.judging.rules}
    assert (urls["Mine"], urls["Stale"]) == ("https://w.test/mine", f"{base}Stale")


def test_the_commands_are_understood():
    for command in content(message(EVERYBODY)).commands:
        program, *arguments = shlex.split(command)
        params = parse_command(arguments)
        assert (program, params["config"]) == ("rankwatch", DEFAULT_CONFIG)
        assert "home-feed" in str(params.values())


def test_a_runbook_that_cannot_be_opened_is_no_link():
    for url in (
        "javascript:alert(1)",
        "https://",
        "https://a b",
        "https://x/<y>",
        "http://[x",
        "https://\u202e.test",
    ):
        assert [name for name, _ in content(message(start(runbook_url=url))).links] == ["run"]


def test_on_pages_the_alert_that_names_the_fault_leads_even_if_it_began_later():
    fault = finding(FaultKind.SHARED_LIST, arms=(Arm.BASELINE,))
    later = replace(NAMED, slot=NAMED.slot + DAY, value=1.0)
    assert find_lead((OTHER, later), fault) is later
    # Without a finding the first alert leads, although the value of another is farther out.
    assert find_lead((OTHER, later), None) is OTHER


def test_a_page_escapes_its_links_and_the_rest_by_name_and_links_only_to_the_web():
    links = ("<img>", "javascript:x"), ("<img>", 'https://x.test/"><script>')
    page = mail_page(replace(content(message(EVERYBODY)), more=("<img>",), links=links))
    assert not any(tag in page for tag in ("<img", "<script", 'href="javascript'))
    assert 'href="https://x.test/&#34;&gt;&lt;script&gt;"' in page


def test_a_link_is_escaped():
    link = page_url(transition(comparison="home feed/1", segment="a=b&c"), "http://rw.test/")
    assert link == "http://rw.test/c/home%20feed%2F1/runs/2024-01-08T00:00:00Z?segment=a%3Db%26c"


def test_cut_texts_that_differ_only_beyond_the_cut_stay_different():
    one, two = clean("x" * 500 + "1", 256), clean("x" * 500 + "2", 256)
    assert one != two
    assert len(one) == 256


@given(st.text(st.characters(codec=None), max_size=400), st.integers(20, 300))  # surrogates too
def test_cleaned_text_is_short_and_printable(text, limit):
    cleaned = clean(text, limit)
    assert len(cleaned) <= limit
    assert cleaned.isprintable()
    assert clean(cleaned, limit) == cleaned
