import shlex
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts_reference import DEFAULT, UNPAIRED, severities
from deploy.shipped import parse_command
from factories import DAY, SLOT, transition
from messages import (
    BRITISH,
    EVERYBODY,
    URL,
    WHY,
    acknowledgement,
    briefing,
    end,
    explanation,
    hostile_message,
    many,
    message,
    repetition,
    start,
)
from monitor.alerts.leading_changes import find_lead
from monitor.alerts.notification_policy import compose_messages
from monitor.cli.completion import DEFAULT_CONFIG
from monitor.model.alerts import Removed
from monitor.model.explanation import DropPart, FaultKind, Finding, PartAmount
from monitor.model.notifications import (
    Briefing,
    FiringSnapshot,
    KnownCause,
    MessageStatus,
)
from monitor.model.rankings import Arm
from monitor.model.rules import Direction, Severity
from monitor.model.run_reasons import RunReason, RunReasonKind
from monitor.receivers import BUILT_IN
from monitor.receivers.alertmanager import alert_of
from monitor.receivers.email import mail_page, mail_subject
from monitor.receivers.message.content import content_of
from monitor.receivers.message.identity import description_of, summary_of
from monitor.receivers.message.plain_text import plain_text
from monitor.receivers.message.safe_text import clean, page_url
from monitor.receivers.pagerduty import pagerduty_events
from monitor.receivers.slack import headline_of, slack_body
from monitor.receivers.webhook import webhook_body
from monitor.service.composition import open_wiring
from monitor.service.daemon.outage import DATABASE_AWAY
from monitor.settings.configuration import Settings
from monitor.texts.actions import NEW_LEVEL, write_urgency

content = partial(content_of, external_url=URL)


def subject(each):
    return mail_subject(each, content(each))


URGENT = write_urgency(Severity.CRITICAL)
CONTACT = "Contacts: team ranking."


def test_shares_that_cancel_out_are_given_as_amounts():
    causes = (
        PartAmount(part=DropPart.ORDER, amount=1.25),
        PartAmount(part=DropPart.LENGTH, amount=-1.0),
    )
    found = content(message(EVERYBODY, briefing=briefing(explanation=explanation(causes=causes))))
    assert found.shares == (
        ("items moved", "1.2500"),
        ("lists of other lengths", "reduced the drop by 1.0000"),
    )


def test_examples_that_nobody_chose_are_those_of_the_groups():
    assert [each.user for each in content(hostile_message("v-1")).examples] == ["v-1", "v-1"]
    no_choice = Briefing(explanation=hostile_message("v-1").briefing.explanation)
    assert [each.user for each in content(message(EVERYBODY, briefing=no_choice)).examples] == [
        "v-1"
    ]


def test_all_users_stand_for_their_segments_of_which_the_one_farthest_out_comes_first():
    near, far = (
        start(segment=f"plan={value}", dedup_key=str(value), value=value, normal=None)
        for value in (0.3, 0.1)
    )
    found = content(message(near, far, EVERYBODY))
    assert [change.heading for change in found.changes] == ["SimilarityLow firing"]
    assert found.more == (
        "This message also reports: SimilarityLow (2 segments: plan=0.1, plan=0.3).",
    )
    assert [change.heading for change in content(message(near, far)).changes] == [
        "SimilarityLow firing in plan=0.1",
        "SimilarityLow firing in plan=0.3",
    ]


def test_what_became_worse_says_so_first_and_names_what_joined_meanwhile():
    missing = start(alert="MissingLists", dedup_key="m", value=None)
    found = content(
        message(
            missing, firing=(EVERYBODY, BRITISH, missing), wake_ups=2, worse="its severity rose"
        )
    )
    assert found.title == f"Worse: MissingLists firing on home-feed: {missing.reason}"
    assert found.more == (
        "Sent again because the incident became worse: its severity rose.",
        "Still firing: SimilarityLow (all users and country=UK).",
    )


def test_a_thousand_changes_are_five_in_full_and_the_rest_by_name():
    other = start(alert="MissingLists", segment="shop=0001", dedup_key="m", value=None)
    found = content(message(*many(999), other))
    assert len(found.changes) == 5
    assert found.title.startswith(
        "SimilarityLow and 1 other alert firing on home-feed (999 segments: shop=0996, shop=0997, "
        "shop=0998 and 996 more): mean of "
    )
    assert found.changes[0].heading == "SimilarityLow firing in shop=0998"
    assert found.more == (
        (
            "This message also reports: SimilarityLow (994 segments: shop=0000, shop=0001, "
            "shop=0002 and 991 more); MissingLists (shop=0001)."
        ),
    )


def test_no_more_than_twelve_further_alerts_are_named():
    changes = [start(alert=f"A{n:02}", dedup_key=str(n)) for n in range(20)]
    found = content(message(*changes))
    named = ", ".join(f"A{n:02}" for n in range(5, 17))
    assert found.more == (f"This message also reports: {named} (all users) and 3 other alerts.",)


def test_an_end_says_what_goes_on_firing_and_stands_behind_a_start():
    found = content(message(end(), firing=(BRITISH,)))
    assert found.status is MessageStatus.FIRING
    assert found.title == "SimilarityLow resolved on home-feed; 1 still firing"
    assert found.more == ("Still firing: SimilarityLow (country=UK).",)
    assert ("had been firing since", "2024-01-07T00:00:00Z") in found.changes[0].facts
    both = content(message(end(), BRITISH))
    assert (
        both.title
        == f"SimilarityLow firing on home-feed (country=UK): {BRITISH.reason}; 1 resolved"
    )
    assert [change.heading for change in both.changes] == [
        "SimilarityLow firing in country=UK",
        "SimilarityLow resolved",
    ]


def test_an_end_at_a_new_level_leads_the_others_and_says_so():
    level = (
        "new normal since 2024-01-08T00:00:00Z: accept it (rankwatch accept home-feed --since "
        "2024-01-08T00:00:00Z) or roll back"
    )
    found = content(
        message(
            end(alert="A"),
            end(segment="country=UK", reason=f"mean is 0.45; {level}", is_new_normal=True),
        )
    )
    assert found.title == "SimilarityLow ended as new normal on home-feed (country=UK)"
    assert found.changes[0].reason == f"mean is 0.45; {level}"


@pytest.mark.parametrize("removed", Removed)
def test_what_was_removed_is_no_longer_watched_and_leads_to_a_page_that_exists(removed):
    ended = end(reason="gone", removed=removed, slot=SLOT, at=SLOT)
    found = content(message(ended))
    assert found.title == "SimilarityLow no longer watched on home-feed"
    assert headline_of(found) == f"⏹ {found.title}"
    assert summary_of(ended) == f"{found.title}: gone"
    assert subject(message(ended)).startswith("[NO LONGER WATCHED] [critical] home-feed: ")
    link = ("comparison", f"{URL}/c/home-feed")
    if removed is Removed.COMPARISON:
        link = ("rankwatch", URL)
    assert found.links[0] == link
    assert found.commands[0] == "rankwatch show home-feed"
    assert found.changes[0].facts[-1] == ("at", "2024-01-08T00:00:00Z")
    assert "reported at 2024-01-08T00:00:00Z" in description_of(ended, Briefing())


def test_an_alert_without_an_explanation_says_what_an_earlier_run_of_its_incident_found_out():
    stale = start(
        alert="Stale",
        metric="condition",
        statistic="stale",
        dedup_key="s",
        explanation=None,
        value=None,
    )
    began = content(message(stale, firing=(EVERYBODY, stale)))
    assert began.why == (
        (
            "The incident began with SimilarityLow in the run of 2024-01-08T00:00:00Z: mean of "
            "extended_tau is 0.254 over 1,874 users, below 0.35."
        ),
    )
    cause = KnownCause(slot=SLOT, sentence=WHY)
    knows = message(stale, firing=(EVERYBODY, stale), briefing=Briefing(known_cause=cause))
    assert content(knows).why == (f"Known since the run of 2024-01-08T00:00:00Z: {WHY}",)
    # An explanation that found no cause names it too.
    joined = message(BRITISH, firing=(EVERYBODY, BRITISH), first=(EVERYBODY,), briefing=briefing())
    alone = content(message(BRITISH, briefing=briefing()))
    assert content(joined).why == (*began.why, *alone.why)
    assert content(message(end(), firing=(EVERYBODY,))).why == ()


def test_an_alert_on_users_without_a_list_is_explained_by_who_they_are_and_not_by_items():
    finding = Finding(
        kind=FaultKind.MISSING,
        arms=(Arm.CANDIDATE,),
        segment="a=b",
        segment_share=1.0,
        users=4,
        compared=9,
    )
    told = start(
        metric="coverage",
        statistic="missing(candidate)",
        explanation="4 of 9 users (44 %), exactly the users in a=b",
    )
    missing = briefing(explanation=explanation(finding=finding))
    for alert, brief, why in (
        (told, missing, (told.explanation,)),
        (replace(told, explanation=None), briefing(), ()),
    ):
        found = content(message(alert, briefing=brief))
        assert (found.why, found.shares, found.entered, found.examples) == (why, (), (), ())


def test_the_subject_of_a_mail_stays_when_an_earlier_slot_or_a_severity_joins():
    failing = start(
        alert="RunFailing",
        severity=Severity.WARNING,
        slot=SLOT + timedelta(hours=1),
        explanation=None,
    )
    stale = start(alert="Stale", dedup_key="s", reason="no run has succeeded", explanation=None)
    before = FiringSnapshot(firing=(failing,), delivered=frozenset())
    firing, told = (failing, stale), (failing,)
    later = FiringSnapshot(firing=firing, delivered=frozenset({"firing"}), sent_starts=told)
    messages = [
        *compose_messages((failing,), before),
        *compose_messages((stale,), later),
        *compose_messages((failing, stale), later),
    ]
    parts = [subject(each).partition("] home-feed: ") for each in messages]
    wanted = ["[FIRING] [warning", "[WORSE] [urgent", "[FIRING] [critical"]
    assert [part[0] for part in parts] == wanted
    first, worse, again = (part[2] for part in parts)
    assert first == again
    # If the incident became worse, the subject has the new cause.
    assert worse.startswith("no run has succeeded (incident ")


def test_an_acknowledgement_says_who_and_no_old_figures():
    found = content(message(acknowledgement(), firing=(EVERYBODY,)))
    (change,) = found.changes
    assert found.status is MessageStatus.ACKNOWLEDGED
    assert found.title == "SimilarityLow acknowledged on home-feed"
    assert change.reason == "acknowledged by ann: looking"
    assert [name for name, _ in change.facts] == ["segment", "had been firing since", "run"]


def test_a_repetition_says_since_when_after_which_alert_and_no_more():
    segment, before = (
        start(segment="a=b", dedup_key="ab", since=SLOT - timedelta(days=3)),
        start(alert="FailedLists"),
    )
    found = content(repetition(EVERYBODY, segment, first=(before,)))
    assert found.title.startswith(
        "SimilarityLow still firing on home-feed since 2024-01-05T00:00:00Z, after FailedLists: "
        "mean "
    )
    told = (
        "\n\nSimilarityLow still firing\n  run: 2024-01-08T00:00:00Z\n\nThis message also "
        "reports: SimilarityLow (a=b).\n"
    )
    assert plain_text(found).endswith(told)


@pytest.mark.parametrize(("headline", "shown"), [("recs is down", "recs is down"), (None, "it is")])
def test_titles_name_the_headline_or_else_the_reason(headline, shown):
    change = start(reason="it is", headline=headline)
    assert (
        content(message(change)).title
        == summary_of(change)
        == f"SimilarityLow firing on home-feed: {shown}"
    )
    assert subject(message(change)).startswith(f"[FIRING] [critical] home-feed: {shown} (incident ")


def test_what_runs_from_right_to_left_does_not_carry_away_what_stands_behind_it():
    heading = content(message(start(segment="shop=\u05d0\u05d1"))).changes[0].facts[0][1]
    assert heading == "shop=\u05d0\u05d1\u200e"


def test_it_says_for_whom_since_when_whether_it_goes_on_and_how_urgent_it_is():
    since = "2024-01-07T00:00:00Z"
    over = f"Over: {since} to 2024-01-09T00:00:05Z."
    situations = [
        (message(BRITISH), (f"Still going on for country=UK, since {since}.", URGENT, CONTACT)),
        (message(acknowledgement()), (f"Still going on, since {since}.",)),
        (message(end()), (over,)),
        (message(end(is_new_normal=True)), (over, NEW_LEVEL)),
        (message(end(removed=Removed.RULE)), ()),
    ]
    for each, situation in situations:
        assert content(each).situation == situation


def bodies(each):
    """What each kind of receiver sends."""
    found = content(each)
    return {
        "alertmanager": str(alert_of(each.changes, SLOT, URL)),
        "apprise": plain_text(found, has_title=False),
        "email": mail_page(found),
        "pagerduty": str(pagerduty_events(each, "key", URL)),
        "slack": str(slack_body(found)),
        "webhook": str(webhook_body(each, receiver="hook", external_url=URL)),
    }


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
        assert [kind for kind, body in sent.items() if runbook not in body] == []


def test_the_base_of_runbooks_and_the_rule_decide_the_link():
    own = {"alert": "Mine", "metric": "overlap", "below": 0.5, "runbook_url": "https://w.test/mine"}
    comparison = {**DEFAULT, "rules": [own], "default_rules": True}
    base = "https://w.test/rankwatch/"
    settings = {"comparisons": [comparison], "runbook_base_url": base}
    watched = open_wiring(Settings.model_validate(settings)).watched["home-feed"]
    urls = {rule.alert: rule.runbook_url for rule in watched.comparison.judging.rules}
    assert (urls["Mine"], urls["Stale"]) == ("https://w.test/mine", f"{base}Stale")


def test_what_is_about_rankwatch_itself_links_and_names_no_comparison():
    found = content(message(start(metric="database", comparison="rankwatch")))
    assert found.links[0] == ("rankwatch", URL)
    assert found.commands == ("rankwatch db check",)


@pytest.mark.parametrize(("kind", "is_offered"), [("replaced", True), ("noise", False)])
def test_a_change_that_may_be_wanted_can_be_accepted_from_its_first_run(kind, is_offered):
    finding = Finding(
        kind=FaultKind(kind),
        arms=(Arm.CANDIDATE,),
        segment="all",
        segment_share=1.0,
        users=60,
        compared=200,
    )
    briefed = briefing(explanation=explanation(finding=finding))
    earlier = replace(BRITISH, since=SLOT - timedelta(days=2))
    found = content(message(EVERYBODY, earlier, briefing=briefed))
    command = "rankwatch accept home-feed --since 2024-01-06T00:00:00Z"
    assert (command in found.commands) is is_offered
    assert ("If so, accept it" in " ".join(found.situation)) is is_offered
    again = message(firing=(EVERYBODY,), is_repetition=True, briefing=briefed)
    assert len(content(again).commands) == 4


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


TEXT = """SimilarityLow firing on home-feed: mean of extended_tau is 0.254 over 1,874 users, below 0.35

Still going on, since 2024-01-07T00:00:00Z.
Critical: look at it now.
Contacts: team ranking.

Why:
  No clear cause. Similarity fell by 0.2500: items replaced 62 %, items moved 38 %.
  Items in the lists of one arm only: 1 of the baseline, 14 of the candidate.

Commands:
  rankwatch show home-feed --slot 2024-01-08T00:00:00Z
  rankwatch alerts ack home-feed --alert SimilarityLow
  rankwatch silence add alert=SimilarityLow comparison=home-feed --for 25h
  rankwatch runs home-feed

Links:
  run: http://rankwatch.test:29108/c/home-feed/runs/2024-01-08T00:00:00Z?segment=all
  runbook: https://runbooks.test/similarity

SimilarityLow firing
  mean of extended_tau is 0.254 over 1,874 users, below 0.35
  segment: none, the whole population
  mean of extended_tau: 0.254 (95 % interval 0.24 to 0.268)
  users: 1,874
  threshold: below 0.35
  normal before: 0.61
  in breach since: 2024-01-07T00:00:00Z
  run: 2024-01-08T00:00:00Z

This message also reports: SimilarityLow (country=UK).

What the drop is made of:
  items replaced: 62 %
  items moved: 38 %

Items that gained most:
  Red shoes (sku-1): in 3 % of baseline lists, 61 % of candidate lists

Items that lost most:
  sku-2: in 70 % of baseline lists, 0 % of candidate lists

Lists of u-17:
     baseline           candidate
  1  sku-2 (only here)  Red shoes (only here)
  2  sku-3              sku-3
  3  sku-5              sku-4 (there: 4)
  4  sku-4              sku-5 (there: 3)
  5  sku-6 (only here)
"""


def test_text_has_its_parts_in_order_and_lists_side_by_side():
    examples = briefing().examples[:1]
    assert (
        plain_text(content(message(EVERYBODY, BRITISH, briefing=briefing(examples=examples))))
        == TEXT
    )


def test_the_urgency_follows_from_the_share_of_users_and_names_whom_to_call():
    lost = start(
        metric="coverage", statistic="missing(baseline)", direction=Direction.ABOVE, normal=None
    )
    failed = start(metric="condition", statistic="error", value=None, users=0)
    for change, urgency in (
        (
            replace(lost, value=0.6, users=200, normal=0.2),
            "80 more of 200 users than usual (40 %) are concerned. Look",
        ),
        (replace(lost, value=0.5, users=200), "100 of 200 users (50 %) are concerned. Call the b"),
        (replace(lost, value=0.49, users=200), "98 of 200 users (49 %) are concerned. Look at it"),
        (replace(lost, value=0.9, users=9, segment="country=UK"), "Critical: look at it now."),
        (failed, "Urgent: no user could be compared. Call the owner of the arm that failed now."),
    ):
        found = content(message(change))
        assert urgency in found.situation[1]
        is_urgent = found.situation[1].startswith("Urgent")
        assert ("urgent" in subject(message(change)), found.is_urgent) == (is_urgent, is_urgent)


def test_the_explanation_counts_the_users_unless_an_alert_names_far_more_or_is_urgent():
    finding = Finding(
        kind=FaultKind.SHARED_LIST,
        arms=(Arm.BASELINE,),
        segment="all",
        segment_share=1.0,
        users=60,
        compared=200,
    )
    briefed = briefing(explanation=explanation(finding=finding))
    for value, users in ((0.31, 60), (0.49, 60), (0.5, 100), (0.61, 122)):
        lost = start(metric="coverage", statistic="shared_list(baseline)", normal=None)
        lost = replace(lost, value=value, users=200, direction=Direction.ABOVE)
        situation = content(message(lost, briefing=briefed)).situation
        assert f" {users} of 200 users" in situation[1]
        assert situation[3].startswith("What to do: find out why the baseline falls back")


def test_lists_of_other_users_are_urgent_for_any_share_in_messages_reminders_and_annotations():
    finding = Finding(
        kind=FaultKind.MIXED_UP,
        arms=(Arm.CANDIDATE,),
        segment="all",
        segment_share=1.0,
        users=6,
        compared=200,
    )
    briefed = briefing(explanation=explanation(finding=finding))
    change = start(severity=Severity.WARNING)
    first = message(change, briefing=briefed)
    reminder = message(firing=(change,), is_repetition=True, briefing=briefed)
    for sent in (first, reminder):
        found = content(sent)
        assert found.is_urgent
        assert found.situation[1].startswith(
            "Urgent: about 6 of 200 users (3 %) are concerned. They may"
        )
    assert found.situation[1] in description_of(change, briefed)
    assert not content(replace(first, severity=Severity.INFO)).is_urgent


def test_the_alert_that_names_the_fault_comes_first_and_gives_the_runbook():
    finding = Finding(
        kind=FaultKind.SHARED_LIST,
        arms=(Arm.BASELINE,),
        segment="all",
        segment_share=1.0,
        users=60,
        compared=200,
    )
    shared = start(alert="BaselineSharedList", metric="coverage", statistic="shared_list(baseline)")
    shared = replace(shared, dedup_key="s", value=0.3, direction=Direction.ABOVE, threshold=0.29)
    other = replace(shared, alert="SharedList", statistic="shared_list", dedup_key="o")
    found = content(
        message(
            EVERYBODY, other, shared, briefing=briefing(explanation=explanation(finding=finding))
        )
    )
    assert found.changes[0].heading == "BaselineSharedList firing"
    assert found.title.startswith("BaselineSharedList and 2 other alerts firing")
    # On pages it leads even if it began later. Else the first one does, although others are farther.
    later = replace(shared, slot=shared.slot + DAY, value=1.0)
    assert find_lead((other, later), finding) is later
    assert find_lead((other, later), None) is other
    lasting = replace(shared, runbook_url="https://runbooks.test/shared")
    worse = message(
        EVERYBODY,
        firing=(EVERYBODY, lasting),
        worse="more",
        briefing=briefing(explanation=explanation(finding=finding)),
    )
    found = content(worse)
    assert found.title.startswith("Worse: BaselineSharedList and 1 other alert firing")
    assert found.links[1] == ("runbook", "https://runbooks.test/shared")
    assert found.is_urgent
    assert found.situation[1] == (
        "Urgent: the incident became worse. 60 of 200 users (30 %) are concerned. Call the "
        "baseline's owner now."
    )


def test_too_few_lists_are_as_urgent_as_missing_lists():
    no_data = start(metric="condition", statistic="no_data", value=None, users=0)
    lost = RunReason(kind=RunReasonKind.LOST_LISTS, arm=Arm.CANDIDATE, users=140, asked=200)
    found = content(message(no_data, briefing=Briefing(reasons=(lost,))))
    assert found.situation[1] == (
        "Urgent: 140 of 200 users (70 %) are concerned. Call the candidate's owner now."
    )


def test_a_page_escapes_its_links_and_the_rest_by_name_and_links_only_to_the_web():
    links = ("<img>", "javascript:x"), ("<img>", 'https://x.test/"><script>')
    page = mail_page(replace(content(message(EVERYBODY)), more=("<img>",), links=links))
    assert not any(tag in page for tag in ("<img", "<script", 'href="javascript'))
    assert 'href="https://x.test/&#34;&gt;&lt;script&gt;"' in page


def test_the_description_has_the_reason_since_when_and_what_to_run():
    assert description_of(transition(), Briefing()) == (
        "mean of extended_tau is 0.254 over 1,874 users, below 0.35\n"
        "in breach since 2024-01-07T00:00:00Z, reported for the run of 2024-01-08T00:00:00Z\n"
        "Still firing. Critical: look at it now.\n"
        "Commands: rankwatch show home-feed --slot 2024-01-08T00:00:00Z; "
        "rankwatch alerts ack home-feed --alert SimilarityLow; "
        "rankwatch silence add alert=SimilarityLow comparison=home-feed --for 25h; "
        "rankwatch runs home-feed"
    )
    told = end(
        since=SLOT - timedelta(days=2),
        explanation="Everywhere, items moved.\n\x1b[31mx",
        comparison="a; rm -rf /",
    )
    _, why, since, commands = description_of(told, Briefing()).splitlines()
    assert why == "Why: Everywhere, items moved.  [31mx"
    assert since == (
        "had been firing since 2024-01-06T00:00:00Z, reported for the run of 2024-01-09T00:00:00Z"
    )
    assert "rankwatch show 'a; rm -rf /' --slot " in commands
    assert commands.endswith("rankwatch runs 'a; rm -rf /'")


def test_a_link_is_escaped():
    link = page_url(transition(comparison="home feed/1", segment="a=b&c"), "http://rw.test/")
    assert link == "http://rw.test/c/home%20feed%2F1/runs/2024-01-08T00:00:00Z?segment=a%3Db%26c"


def test_cut_texts_that_differ_only_beyond_the_cut_stay_different():
    one, two = clean("x" * 500 + "1", 256), clean("x" * 500 + "2", 256)
    assert one != two
    assert len(one) == 256


@given(st.text(st.characters(codec=None), max_size=400), st.integers(20, 300))  # surrogates too
def test_cleaned_text_is_short_printable_utf8(text, limit):
    cleaned = clean(text, limit)
    assert len(cleaned) <= limit
    assert cleaned.isprintable()
    assert cleaned.encode("utf-8").decode("utf-8") == cleaned
    assert clean(cleaned, limit) == cleaned
