"""Keyed hashes in place of users' ids: sources are asked by ids, and all that is measured, stored or shown has hashes alone."""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

import pandas as pd

from monitor.errors import UserDataError
from monitor.model.rankings import Pull, RelevanceTable, UserBatch
from monitor.pairing.ids import find_users
from monitor.ports import RelevanceSource

_MARK, _DIGITS = "hmac-", 32
_PSEUDONYM = re.compile(f"{_MARK}[0-9a-f]{{{_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """HMAC-SHA-256 of ids in UTF-8, cut to 128 bits: ``hmac-`` and 32 hexadecimal digits.

    Picklable; 2 s a million users.
    """

    key: bytes = field(repr=False)

    def hide(self, users: Iterable[str]) -> "pd.Index[str]":
        """What stands for these users, in their order."""
        keyed = hmac.new(self.key, digestmod="sha256")

        def hidden(user: str) -> str:
            mine = keyed.copy()
            mine.update(user.encode(errors="surrogatepass"))
            return _MARK + mine.hexdigest()[:_DIGITS]

        return pd.Index([hidden(user) for user in users], dtype="str")

    def find(self, asked: str) -> str:
        """What stands for the user whom a person asks for, by the id or by what stands for it."""
        return asked if _PSEUDONYM.fullmatch(asked) else str(self.hide([asked])[0])

    def hide_batch(self, batch: UserBatch) -> UserBatch:
        """The same answers of users who go by their pseudonyms.

        Relevance is hidden where it is read, see `HiddenRelevance`.
        """
        ids = batch.panel.users
        hidden = self.hide(ids)

        def pulled(pull: Pull) -> Pull:
            names = hidden[find_users(pull.rankings.users, ids)]
            failed = hidden[find_users(pd.Index(list(pull.failures), dtype="str"), ids)]
            failures = dict(zip(failed, pull.failures.values(), strict=True))
            return replace(pull, rankings=replace(pull.rankings, users=names), failures=failures)

        return replace(
            batch,
            panel=replace(batch.panel, users=hidden),
            baseline=pulled(batch.baseline),
            candidate=pulled(batch.candidate),
            again=None if batch.again is None else pulled(batch.again),
        )


@dataclass(frozen=True, slots=True)
class HiddenRelevance:
    """What users found relevant, by their pseudonyms. Port: RelevanceSource."""

    source: RelevanceSource
    pseudonyms: Pseudonyms

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        """What is known of this slot's users; an error names the pseudonym."""
        try:
            table = self.source.relevance(slot)
        except UserDataError as error:
            raise UserDataError(self.pseudonyms.find(error.user), error.what) from None
        return (
            None
            if table is None
            else replace(table, users=self.pseudonyms.hide(map(str, table.users)))
        )
