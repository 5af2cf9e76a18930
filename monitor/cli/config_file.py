"""Commands around the configuration file: `init`, `check` and `config`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli import output
from monitor.cli.parameters import DEFAULT_CONFIG, AsJson, Config, OneComparison
from monitor.errors import ConfigError

if TYPE_CHECKING:
    from monitor.service.analysis.preview import Preview

_SOON = timedelta(days=14)
app = typer.Typer(help="The configuration file's grammar.", no_args_is_help=True)


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of the configuration file, for editors."""
    from monitor.receivers import RECEIVERS
    from monitor.settings.json_schema import json_schema
    from monitor.sources import SOURCES

    output.print_line(json.dumps(json_schema(), indent=2))
    for problem in (*SOURCES.problems(), *RECEIVERS.problems()):
        output.print_error(problem)


def init(
    *,
    path: Annotated[
        Path | None, typer.Argument(help="Where to write; default as --config.")
    ] = None,
    config: Config = DEFAULT_CONFIG,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a commented configuration to start from."""
    from monitor.files import replace_file
    from monitor.settings.loader import example_text

    target = path or config
    try:
        if force:
            replace_file(target, example_text().encode())
        else:
            with target.open("x", encoding="utf-8") as file:
                file.write(example_text())
    except FileExistsError:
        raise ConfigError(f"{target} is there already; --force replaces it") from None
    except OSError as error:
        raise ConfigError(f"cannot write {target}: {error.strerror}") from None
    output.print_line(f"Wrote {target}. Edit it, then run: rankwatch check --config {target}")


def check_config(
    comparison: OneComparison = None,
    *,
    config: Config = DEFAULT_CONFIG,
    users: Annotated[
        int, typer.Option("--users", "-n", min=1, max=100, help="How many users to ask for.")
    ] = 3,
    as_json: AsJson = False,
) -> None:
    """Validate the configuration, and preview a few users' lists.

    Checks the web configuration file too, asks both arms for the users, and shows their lists side
    by side. Exit 3 when an arm could not be read or when no list could be compared."""
    from monitor.metrics import METRICS
    from monitor.receivers import RECEIVERS
    from monitor.service.analysis.preview import preview_users
    from monitor.service.clock import SystemClock
    from monitor.service.composition import wire
    from monitor.service.runner import select_watched
    from monitor.settings.loader import load_settings
    from monitor.sources import SOURCES
    from monitor.storage import exposure, parse_url
    from monitor.web.access import open_access

    output.log_errors_only()
    for problem in (*SOURCES.problems(), *RECEIVERS.problems(), *METRICS.problems()):
        output.print_error(problem)
    settings = load_settings(config)
    open_access(
        settings.access, name=settings.web_config_file
    )  # an error where certificates cannot be used
    ending = {
        told
        for options in (settings, settings.access)
        for told in _ends_of(options, SystemClock().now())
    }
    wiring = wire(settings)
    previews = [
        preview_users(watched, users) for watched in select_watched(wiring.watched, comparison)
    ]
    for preview in previews:
        if as_json:
            output.print_json(_preview_dict(preview))
        else:
            _print_preview(preview)
    if not as_json:
        if (exposed := exposure(parse_url(settings.database))) is not None:
            output.print_line(f"database: {exposed}")
        for told in sorted(ending):
            output.print_line(told)
        if settings.privacy.key_file is not None:
            output.print_line(
                (
                    "privacy: users go by keyed hashes; what was stored before names them until "
                    "retention deletes it"
                )
            )
        if (exposed := settings.privacy.exposure) is not None:
            output.print_line(f"privacy: {exposed}")
        output.print_line(
            (
                f"{config}: valid, {len(wiring.watched)} comparison(s), {len(wiring.receivers)} "
                "receiver(s)"
            )
        )
    if not all(preview.evidence for preview in previews):
        raise typer.Exit(output.SOURCE_EXIT)


def _ends_of(options: object, now: datetime) -> Iterator[str]:
    """What is to be said of certificates that end soon. ConfigError where one has ended."""
    from pydantic import BaseModel

    from monitor.web.access import certificates_end

    for name, value in options if isinstance(options, BaseModel) else ():
        if (
            name == "cert_file"
            and (ends := certificates_end(str(value))) is not None
            and ends <= now + _SOON
        ):
            told = (
                f"cert_file {value}: its certificate, or one that signed it, "
                f"end{'ed' if ends <= now else 's'}"
            )
            told += f" {output.instant(ends)}: renew it"
            if ends <= now:
                raise ConfigError(told)
            yield told
        for part in value if isinstance(value, tuple) else (value,):
            yield from _ends_of(part, now)


def _print_preview(preview: Preview) -> None:
    of, slots = (
        preview.comparison,
        f"slot {output.instant(preview.slot)}  next {output.instant(preview.next_slot)}",
    )
    output.print_line(f"{of.name}  {slots}  top {of.measuring.k}  of users in the sample or not")
    for trouble in preview.troubles:
        output.print_line(f"  {trouble}")
    if preview.coverage is not None:
        for (arm, reason), count in preview.coverage.all.reasons.items():
            told = f" ({note})" if (note := preview.notes.get((arm, reason))) else ""
            output.print_line(
                f"  {arm}: {count} of {preview.coverage.all.asked} users {reason}{told}"
            )
    for sentence in _write_matches(preview):
        output.print_line(f"  {sentence}")
    output.print_evidence(preview.evidence, preview.titles)
    output.print_line()


def _write_matches(preview: Preview) -> list[str]:
    from monitor.texts.id_mismatches import write_mismatch
    from monitor.texts.unmatched_names import write_unmatched

    counts = [f"{each.matching:,} of {each.of:,} {each.ids}s match" for each in preview.matches]
    return [
        *counts,
        *map(write_mismatch, preview.id_mismatches),
        *map(write_unmatched, preview.unmatched),
    ]


def _preview_dict(preview: Preview) -> dict[str, object]:
    reasons = preview.coverage.all.reasons if preview.coverage else {}
    return {
        "comparison": preview.comparison.name,
        **output.pick(preview, "slot", "next_slot"),
        "k": preview.comparison.measuring.k,
        "troubles": [
            *preview.troubles,
            *(f"{arm}: {note}" for (arm, _), note in preview.notes.items()),
        ],
        "matches": _write_matches(preview),
        "unmatched": [asdict(each) for each in preview.unmatched],
        "id_mismatches": [asdict(each) for each in preview.id_mismatches],
        "coverage": {f"{arm}.{reason}": count for (arm, reason), count in reasons.items()},
        "users": [
            output.pick(each, "user", "scores", "baseline", "candidate")
            for each in preview.evidence
        ],
        "titles": preview.titles,
    }
