"""Types for the values of settings. Most types check a text and store its canonical form."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    SecretStr,
    ValidationInfo,
)
from pydantic_core import core_schema

from monitor.boundary.options import Duration, must, readable_by, web_url_of
from monitor.measures.arm_metrics import parse_arm_metric
from monitor.measures.metrics import Metric, parse
from monitor.model.errors import ConfigError, MonitorError
from monitor.model.rankings import ALL
from monitor.model.rules import Keep
from monitor.model.segments import name_segment
from monitor.model.statistics import CoverageShare, Statistic
from monitor.settings.addresses import split_address
from monitor.settings.schedule import Cron, parse_hours, parse_zone
from monitor.storage.database_url import absolute_url, parse_url

is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}").fullmatch
NAME_MESSAGE = "must be 1 to 63 letters, digits, _, . or -, beginning with a letter or digit"
_ALERT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}").fullmatch
_SEGMENT = re.compile(rf"{ALL}|[^=]+=.+", re.DOTALL).fullmatch
_ITEM_URL = re.compile(r"[^{}/]*//[^{}/]*/[^{}]*(\{item\}[^{}]*)+").fullmatch
_SHORTEST_LEASE = timedelta(seconds=5)
_LONGEST_LEASE = timedelta(minutes=5)
_FIRST_YEAR, _LAST_YEAR = 1970, 9998  # slots are only in these years
_YES = frozenset({"true", "yes", "on"})
_NO = frozenset({"false", "no", "off"})
_DURATION_LIKE = re.compile(r"\d+(?:\.\d+)?\s*[a-z]+", re.IGNORECASE)


class ParsedBy:
    """Marks a type whose values are written as texts in the file.

    ``parse_text`` turns a text into a value, and ``write`` turns a value into a text.
    """

    def __init__(
        self, parse_text: Callable[[str], object], write: Callable[[Any], str] = str
    ) -> None:
        self._parse = parse_text
        self._write = write

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """The schema of a text that is parsed. A MonitorError becomes a ValueError."""
        return core_schema.no_info_after_validator_function(
            self._read,
            handler.generate_schema(str),
            serialization=core_schema.plain_serializer_function_ser_schema(self._write),
        )

    def _read(self, text: str) -> object:
        """Parse the text. Converts a MonitorError, because pydantic reports only a ValueError."""
        try:
            return self._parse(text)
        except MonitorError as error:
            raise ValueError(str(error)) from None


def as_printed_by(parse_text: Callable[[str], object]) -> ParsedBy:
    """Mark a type that stores the parsed value as text, in its canonical form."""
    return ParsedBy(lambda text: str(parse_text(text)))


def parse_metric(text: str) -> Metric:
    """The metric with this name.

    Raises ValueError if YAML cut the name at a comma, and MetricError if the name is unknown.
    """
    if text.count("(") != text.count(")"):
        raise ValueError(
            "is part of a name that was cut at its comma: put the whole name in quotes, such "
            'as "ndcg(arm=candidate, gain=linear)"'
        )
    return parse(text)


def parse_days(days: str) -> tuple[date, date]:
    """Parse ``2026-12-24..2026-12-26`` or one day. Raises ValueError for any other text."""
    begin, dots, end = days.partition("..")
    with suppress(ValueError):
        first = date.fromisoformat(begin.strip())
        last = first
        if dots:
            last = date.fromisoformat(end.strip())
        is_in_range = first.year >= _FIRST_YEAR and last.year <= _LAST_YEAR
        if is_in_range and first <= last:
            return first, last
    raise ValueError(
        "must be a day such as 2026-12-24, or a first and a last day such as 2026-12-24..2026-12-26"
    )


def write_days(days: tuple[date, date]) -> str:
    """Write the days in the form that `parse_days` reads."""
    first, last = days
    return f"{first}..{last}"


def _parse_keep(value: object) -> Keep | int:
    """Return which users' lists or scores are stored: a word, or a number of users.

    Raises ValueError for any other value.
    """
    # YAML has read `true` and `false` as booleans. `str` turns them into words again.
    word = str(value).strip().lower()
    if word in _YES:
        return Keep.ALL
    if word in _NO:
        return Keep.NONE
    if word in set(Keep):
        return Keep(word)
    # 12 digits are enough for any number of users, and such a number fits into 64 bits.
    if not re.fullmatch(r"[1-9]\d{0,11}", word):
        raise ValueError(f"must be {', '.join(Keep)}, or a number of users, such as 10000")
    return int(word)


def _check_database(secret: SecretStr, info: ValidationInfo) -> SecretStr:
    """Check a database's URL. Returns it with an absolute path, if it is the URL of a file.

    A relative path starts at the folder of the configuration. It stays relative if the settings
    come from no file.
    """
    configuration_folder = (info.context or {}).get("base_dir")
    try:
        parse_url(secret)
        if configuration_folder is None:
            return secret
        return absolute_url(secret, Path(configuration_folder))
    except ConfigError as error:
        # Remove the setting's name, which is reported anyway, and the value, which may be secret.
        raise ValueError(re.sub(r"^database: (?:'[^']*' )?", "", str(error))) from None


ComparisonName = Annotated[str, must(is_name, NAME_MESSAGE)]
AlertName = Annotated[
    str,
    must(
        _ALERT,
        "must be 1 to 100 letters, digits, _ or -, beginning with a letter, such as SimilarityLow",
    ),
]
MetricName = Annotated[str, as_printed_by(parse_metric)]
ArmMetricName = Annotated[str, as_printed_by(parse_arm_metric)]
CoverageName = Annotated[CoverageShare, ParsedBy(CoverageShare.parse)]
StatisticName = Annotated[Statistic, ParsedBy(Statistic.parse)]
Days = Annotated[tuple[date, date], ParsedBy(parse_days, write_days)]
HoursText = Annotated[str, readable_by(parse_hours)]
CronText = Annotated[str, readable_by(Cron.parse)]
ZoneName = Annotated[str, as_printed_by(parse_zone)]
SegmentName = Annotated[
    str,
    must(_SEGMENT, f"must be {ALL} or dimension=value, such as country=UK"),
    AfterValidator(name_segment),
]


def _is_list_or_word(value: object) -> bool:
    return not isinstance(value, str) or value in {ALL, "each"}


SegmentChoice = BeforeValidator(
    must(
        _is_list_or_word, "must be all, each, or a list of segments such as [all, country=UK]"
    ).func
)


def _has_no_unit(value: object) -> bool:
    return not _DURATION_LIKE.fullmatch(str(value).strip())


_is_not_duration = must(
    _has_no_unit,
    "counts consecutive runs, not time: write a whole number, such as 2",
)
RunCount = Annotated[int, Field(ge=1, le=1000), BeforeValidator(_is_not_duration.func)]
KeepChoice = Annotated[
    Keep | int,
    BeforeValidator(_parse_keep, json_schema_input_type=bool | Keep | Annotated[int, Field(ge=1)]),
]
Address = Annotated[str, readable_by(split_address)]


def _has_no_user(url: str) -> bool:
    return "@" not in urlsplit(url).netloc


PublicUrl = Annotated[
    str,
    must(web_url_of, "must be a URL: https://host/path"),
    must(
        _has_no_user,
        "must not contain a user or password, because everybody who is notified sees the URL",
    ),
]


def _is_lease_time(lasts: timedelta) -> bool:
    return _SHORTEST_LEASE <= lasts <= _LONGEST_LEASE


LeaseTime = Annotated[Duration, must(_is_lease_time, "must be from 5s to 5m")]
ItemUrl = Annotated[
    PublicUrl,
    must(
        _ITEM_URL,
        "must contain {item} after its host, and no other braces: https://shop.example.com/{item}",
    ),
]
DatabaseUrl = Annotated[SecretStr, AfterValidator(_check_database)]
