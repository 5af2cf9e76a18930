"""Replaces users' ids by keyed hashes in everything that is measured, stored or shown.

Only sources get the real ids.
"""

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

import pandas as pd

from monitor.measures.pairing.ids import find_users
from monitor.model.errors import UserDataError
from monitor.model.ports import RelevanceSource
from monitor.model.rankings import Pull, RelevanceTable, UserBatch

_MARK = "hmac-"
_DIGITS = 32
_PSEUDONYM = re.compile(f"{_MARK}[0-9a-f]{{{_DIGITS}}}")


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """Makes pseudonyms, which are ``hmac-`` and 32 hexadecimal digits.

    The digits are the first 128 bits of the HMAC-SHA-256 of the id in UTF-8. Objects can be
    pickled. A million users take 2 s.
    """

    key: bytes = field(repr=False)

    def hide(self, users: Iterable[str]) -> "pd.Index[str]":
        """Return the pseudonyms of these users, in the same order."""
        keyed = hmac.new(self.key, digestmod="sha256")
        pseudonyms = []
        for user in users:
            digest = keyed.copy()
            digest.update(user.encode(errors="surrogatepass"))
            pseudonyms.append(_MARK + digest.hexdigest()[:_DIGITS])
        return pd.Index(pseudonyms, dtype="str")

    def find(self, user: str) -> str:
        """Return the pseudonym of a user. ``user`` may be the id or the pseudonym itself."""
        if _PSEUDONYM.fullmatch(user):
            return user
        return str(self.hide([user])[0])

    def hide_batch(self, batch: UserBatch) -> UserBatch:
        """Replace the ids in a batch, except in its relevance, see `HiddenRelevance`."""
        ids = batch.panel.users
        pseudonyms = self.hide(ids)

        def hide_pull(pull: Pull) -> Pull:
            users = pseudonyms[find_users(pull.rankings.users, ids)]
            failed = pseudonyms[find_users(pd.Index(list(pull.failures), dtype="str"), ids)]
            failures = dict(zip(failed, pull.failures.values(), strict=True))
            return replace(pull, rankings=replace(pull.rankings, users=users), failures=failures)

        second_baseline = batch.second_baseline
        if second_baseline is not None:
            second_baseline = hide_pull(second_baseline)
        return replace(
            batch,
            panel=replace(batch.panel, users=pseudonyms),
            baseline=hide_pull(batch.baseline),
            candidate=hide_pull(batch.candidate),
            second_baseline=second_baseline,
        )


@dataclass(frozen=True, slots=True)
class HiddenRelevance:
    """A source of relevance that replaces users' ids by pseudonyms. Port: RelevanceSource."""

    source: RelevanceSource
    pseudonyms: Pseudonyms

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        """Return the relevance for this slot, or None if the source has none yet.

        Errors name a user's pseudonym, not the id.
        """
        try:
            table = self.source.relevance(slot)
        except UserDataError as error:
            raise UserDataError(self.pseudonyms.find(error.user), error.what) from None
        if table is None:
            return None
        return replace(table, users=self.pseudonyms.hide(map(str, table.users)))
