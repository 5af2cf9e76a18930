"""Writes what a reader of an alert needs at night: its state, its urgency, and commands.

Commands are quoted for a shell. Callers pass only names that are printable and on one line.
"""

import math
import shlex
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from monitor.model.explanation import FaultKind
from monitor.model.instants import format_instant, format_second
from monitor.model.rankings import ALL, Arm
from monitor.model.rules import Condition, Direction, Severity
from monitor.model.urgency import Impact
from monitor.texts.wording import count_of, write_percent

WHOLE_POPULATION = "none, the whole population"
"""The segment of an alert that is about all users of a run."""
USUAL_INTERVAL = timedelta(days=1)
"""The time between two runs if the configuration is unknown."""
CONTACT_LABELS = ("owner", "team", "contact")
"""The labels that say whom to call."""
CHECK_DATABASE = "rankwatch db check"
"""This command checks whether rankwatch can use the database."""

WITHOUT_DATABASE = (
    "Recommendations are not affected. Acknowledge this in your pager: the commands of rankwatch "
    "to acknowledge and silence need its database."
)
"""The advice while rankwatch has no database."""
NEW_LEVEL = "The lists did not return to the old level. Accept the change, or roll it back."
"""The advice if an alert ended because rankwatch now expects the changed level."""

_ADVICE: Mapping[Severity, str] = {
    Severity.CRITICAL: "look at it now.",
    Severity.WARNING: "look at it within this working day.",
    Severity.INFO: "nobody has to act at night.",
}
_ADVICE_BY_USERS = "look at it within this working day, or now if users complain or sales fall."
"""The advice for a warning that concerns too few users to be urgent."""
_PRIVATE = "They may see data about other users, which is a matter of privacy."
"""What users risk if they get the lists of other users."""
_DUPLICATES_STEP = (
    "look at what joins the lists of {arms} without removing duplicates: two sources, or variants "
    "with one id."
)

FIRST_STEPS: Mapping[FaultKind, str] = {
    FaultKind.MISSING: "ask the owner of {arms} what failed at this time, and repair it.",
    FaultKind.SHARED_LIST: (
        "find out why {arms} falls back to one list. Usual causes: features that these users "
        "lack, or a model that does not answer."
    ),
    FaultKind.IDENTICAL: (
        "check the switch of the experiment and the addresses of both arms. Do not count these "
        "runs as results."
    ),
    FaultKind.ALIKE: (
        "check the switch of the experiment, and whether both arms use one model or one cache. Do "
        "not count these runs as results."
    ),
    FaultKind.INTERLEAVED: (
        "find out what merges the lists of both arms, such as interleaving or a common cache. Do "
        "not count these runs as results."
    ),
    FaultKind.CUT_SHORT: (
        "look at what removes items from the lists of {arms}: a filter, a limit of time, or a "
        "smaller index."
    ),
    FaultKind.UNCHANGED: "look at the job that writes the lists of {arms}, and at its cache.",
    FaultKind.ITEMS_GONE: (
        "ask whether these items were removed on purpose. If not, repair the catalogue or the "
        "filter of {arms}."
    ),
    FaultKind.ITEMS_RISEN: (
        "ask whether {arms} should show these items. If not, repair the filter, or end the boost."
    ),
    FaultKind.ITEMS_FALLEN: (
        "ask whether these items were to be shown less. If not, repair the catalogue or the filter "
        "of {arms}."
    ),
    FaultKind.ITEMS_NEW: (
        "ask whether {arms} should show these items. If not, repair the catalogue or the filter of "
        "{arms}."
    ),
    FaultKind.SHIFTED: (
        "look at the last step of {arms} before the list is served: it drops or inserts items at "
        "the top."
    ),
    FaultKind.FIRST_ITEM: (
        "ask whether this change of the first place was wanted. If not, look at the last step of "
        "{arms} before the list is served, or end the boost."
    ),
    FaultKind.RESPELLED: (
        "let {arms} write the ids as before. If the new ids are wanted, set `item_ids`."
    ),
    FaultKind.MIXED_UP: (
        "stop {arms}, or serve these users from an arm without this fault. Then withdraw the last "
        "change of {arms}, and clear its cache. Usual causes: a cache key without the user, or "
        "rows that were shifted."
    ),
    FaultKind.NOISE: (
        "withdraw the last change of {arms}. Usual causes: features or embeddings that are missing "
        "or broken, ids of items or users that do not fit the model, or a cache key without the "
        "user. Then these are lists of users who are not in this run."
    ),
    FaultKind.REPLACED: (
        "ask whether a new model or catalogue of {arms} was wanted. If so, accept it. If not, "
        "withdraw it."
    ),
    FaultKind.REORDERED: (
        "ask whether a new ranking of {arms} was wanted. If so, accept it. If not, withdraw it."
    ),
}
BOTH_FROZEN_STEP = (
    "What to do: look at what feeds both arms: shared features, the job that publishes the lists, "
    "and a cache in front of both arms. Also check whether rankwatch reads current lists, because "
    "its query or its files may be old."
)
"""What to do first if the lists of both arms stopped changing."""
NOT_SERVED_STEP = (
    "What to do: find out which users are missing from the log. Usual causes: rows that are lost "
    "or late, an arm that fails for some users, or a redirect. If rows were late, run the slot "
    "again when they are there."
)
"""What to do first if an arm of an A/B test served fewer users than usual."""
_CONDITION_STEPS: Mapping[Condition, str] = {
    Condition.SPLIT_OFF: (
        "use no result of this test, and find out why users of one arm are lost or counted twice. "
        "Usual causes: an arm that fails for some users, a redirect, or logs that arrive late. "
        "First repair the cause. Only then assign the users again, and set a new `since`."
    ),
    Condition.ARMS_DIFFERED: (
        "find out whether users are assigned at random. If an earlier test had the same arms, "
        "assign the users again, and begin the test again with a new `since`."
    ),
}


def write_condition_step(condition: str) -> str | None:
    """Say what to do first if this condition of an unpaired comparison begins. Else None."""
    if condition not in set(_CONDITION_STEPS):
        return None
    return f"What to do: {_CONDITION_STEPS[Condition(condition)]}"


def write_gap_step(direction: Direction) -> str:
    """Say what to do first if the users of one arm move farther than usual, for no known cause."""
    moved = Arm.CANDIDATE if direction is Direction.ABOVE else Arm.BASELINE
    return (
        f"What to do: ask what changed in the {moved} since the last healthy run, or what stopped "
        f"changing in the {moved.other}. If it was wanted, accept it. If not, withdraw it."
    )


def write_first_step(kind: FaultKind, arms: Sequence[Arm], *, has_duplicates: bool = False) -> str:
    """Say what to do first about a fault of this kind in the lists of these arms.

    ``has_duplicates`` is whether lists are short because they have duplicates.
    """
    names = " and ".join(f"the {arm}" for arm in arms)
    step = _DUPLICATES_STEP if has_duplicates else FIRST_STEPS[kind]
    return f"What to do: {step.format(arms=names)}"


def write_urgency(
    severity: Severity, impact: Impact | None = None, *, is_worse: bool = False
) -> str:
    """Say how soon somebody has to look at a firing alert, and how many users it concerns.

    An urgent alert says whom to call. ``impact`` is None if the number of users is unknown. An
    incident that became worse is urgent, but not if its severity is info.
    """
    title = severity.capitalize()
    advice = _ADVICE[severity]
    if is_worse and severity is not Severity.INFO:
        users = ""
        owner = "the owner of the arm"
        if impact is not None:
            concerned = _write_impact(impact)
            users = f" {concerned[:1].upper()}{concerned[1:]}"
        if impact is not None and impact.arms:
            owner = _write_owner(impact)
        return f"Urgent: the incident became worse.{users} Call {owner} now."
    if impact is None or severity is Severity.INFO:
        return f"{title}: {advice}"
    if impact.is_urgent:
        return f"Urgent: {_write_impact(impact)} Call {_write_owner(impact)} now."
    if severity is Severity.WARNING:
        advice = _ADVICE_BY_USERS
        title += ", not urgent"
    return f"{title}: {_write_impact(impact)} {advice.capitalize()}"


def _write_impact(impact: Impact) -> str:
    if not impact.compared:
        return "no user could be compared."
    verb = "is" if impact.users == 1 else "are"
    about = "about " if impact.is_estimated else ""
    users = f"{impact.users:,} of {impact.compared:,} users"
    if impact.is_excess:
        users = f"{impact.users:,} more of {impact.compared:,} users than usual"
    concerned = f"{about}{users} ({write_percent(impact.share)}) {verb} concerned."
    return f"{concerned} {_PRIVATE}" if impact.is_private else concerned


def _write_owner(impact: Impact) -> str:
    if len(impact.arms) == 1:
        return f"the {impact.arms[0]}'s owner"
    return "the owners of both arms" if impact.arms else "the owner of the arm that failed"


def write_contacts(labels: Mapping[str, str]) -> str | None:
    """Name the contacts that the labels of an alert give. None if there are none."""
    contacts = [f"{name} {labels[name]}" for name in CONTACT_LABELS if labels.get(name)]
    return f"Contacts: {', '.join(contacts)}." if contacts else None


def write_firing(extent: str, since: datetime, *, is_lasting: bool) -> str:
    """Say since when an alert fires. ``extent`` is its segments, or empty for all users.

    ``is_lasting`` is whether an earlier message reported it.
    """
    where = f" for {extent}" if extent else ""
    if is_lasting:
        return f"Still going on{where}, since {format_second(since)}."
    return f"Since {format_second(since)}{where}."


def write_stale_since(since: datetime) -> str:
    """Say since when a comparison has had no good run."""
    return f"No good run since {format_second(since)}."


def write_frozen_since(since: datetime, missed: int, *, is_about_both_arms: bool) -> str:
    """Say since when an alert on a frozen arm fires, and for how long the lists are the same.

    ``missed`` is how often the other arm's lists changed meanwhile. If both arms are frozen, it is
    the number of runs in which no list changed.
    """
    counted = f"this arm missed {count_of(missed, 'change')} of the other arm"
    if is_about_both_arms:
        counted = f"neither arm's lists changed in {count_of(missed, 'run')}"
    return (
        f"The alert fires since {format_second(since)}, but the lists are the same for longer: "
        f"{counted}."
    )


def write_over(extent: str, since: datetime, ended_at: datetime) -> str:
    """Say when an alert began and ended. ``extent`` is its segments, or empty for all users."""
    where = f" for {extent}" if extent else ""
    return f"Over{where}: {format_second(since)} to {format_second(ended_at)}."


def show_command(comparison: str, slot: datetime | None) -> str:
    """Return the command that shows the run of this slot. If ``slot`` is None, the newest run."""
    command = f"rankwatch show {shlex.quote(comparison)}"
    return command if slot is None else f"{command} --slot {format_instant(slot)}"


def accept_command(comparison: str, since: datetime) -> str:
    """Return the command that accepts the lists as normal from the run of this slot on."""
    return f"rankwatch accept {shlex.quote(comparison)} --since {format_instant(since)}"


def runs_command(comparison: str) -> str:
    """Return the command that lists the runs of the comparison."""
    return f"rankwatch runs {shlex.quote(comparison)}"


def acknowledge_command(comparison: str, segments: Collection[str], alerts: Collection[str]) -> str:
    """Return the command that acknowledges these firing alerts of the comparison.

    If ``segments`` is one segment, the command names it. If it is empty, it means all segments.
    """
    words = ["rankwatch", "alerts", "ack", comparison]
    for alert in sorted(alerts):
        words += ["--alert", alert]
    if len(segments) == 1 and ALL not in segments:
        words += ["--segment", *segments]
    return shlex.join(words)


def silence_command(matchers: Sequence[str], interval: timedelta | None) -> str:
    """Return the command that silences the alerts with these properties until after the next run.

    ``interval`` is the longest time between two runs. If it is None, runs are taken to be daily.
    """
    hours = math.ceil((interval or USUAL_INTERVAL) / timedelta(hours=1)) + 1
    return f"rankwatch silence add {shlex.join(matchers)} --for {hours}h"
