"""The command `check`: is the configuration right, and do both arms answer?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import instant, number, print_json, print_table, say, side_by_side
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, OneComparison, OneName, only_one

if TYPE_CHECKING:
    from monitor.service.looking import Look

SOURCE_EXIT = 3


def check(
    name: OneName = None,
    *,
    config: Config = DEFAULT_CONFIG,
    comparison: OneComparison = None,
    users: Annotated[int, typer.Option("--users", "-n", min=1, max=100, help="How many users to ask for.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Validate the configuration and its web configuration file, ask both arms for a few users, show their lists side by side.

    Exit 3 when an arm could not be read or when no list could be compared.
    """
    from monitor.service.looking import look_at
    from monitor.service.running import chosen
    from monitor.service.wiring import wire
    from monitor.settings import load
    from monitor.web import open_access

    comparison = only_one(name, comparison)
    settings = load(config)
    access = open_access(settings.access, name=settings.web_config_file)
    wiring = wire(settings)
    try:
        looks = [look_at(watched, users) for watched in chosen(wiring.watched, comparison)]
    finally:
        wiring.close()
    for look in looks:
        if as_json:
            print_json(_as_dict(look))
        else:
            _print(look)
    if not as_json:
        for key, told in access.notes:
            say(f"{settings.web_config_file}: {key}: {told}")
        say(f"{config}: valid, {len(wiring.watched)} comparison(s), {len(wiring.receivers)} receiver(s)")
    if any(look.troubles or not look.evidence for look in looks):
        raise typer.Exit(SOURCE_EXIT)


def _print(look: Look) -> None:
    say(f"{look.comparison.name}  slot {instant(look.slot)}  top {look.comparison.k}")
    for trouble in look.troubles:
        say(f"  {trouble}")
    if look.coverage is not None:
        for (arm, reason), count in look.coverage.all.reasons.items():
            note = look.notes.get((arm, reason))
            say(f"  {arm}: {count} of {look.coverage.all.asked} users {reason}" + (f" ({note})" if note else ""))
    for evidence in look.evidence:
        scores = "  ".join(f"{metric} {number(value)}" for metric, value in evidence.scores.items())
        say()
        print_table(("", "baseline", "candidate", ""), side_by_side(evidence), title=f"user {evidence.user}   {scores}")
    say()


def _as_dict(look: Look) -> dict[str, object]:
    reasons = look.coverage.all.reasons if look.coverage else {}
    return {
        "comparison": look.comparison.name,
        "slot": look.slot,
        "k": look.comparison.k,
        "troubles": list(look.troubles),
        "coverage": {f"{arm}.{reason}": count for (arm, reason), count in reasons.items()},
        "users": [
            {"user": each.user, "scores": dict(each.scores), "baseline": each.baseline, "candidate": each.candidate}
            for each in look.evidence
        ],
    }
