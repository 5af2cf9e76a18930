"""From settings to opened parts: the one place that knows which adapter stands behind which port."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import structlog

from monitor.alerts.machine import INSTALLATION, retire_alerts
from monitor.alerts.notification_policy import NotificationPolicy
from monitor.alerts.unmatched import share_selectors
from monitor.errors import ConfigError
from monitor.export.publisher import PrometheusPublisher
from monitor.model.comparison import Comparison
from monitor.model.rankings import Arm
from monitor.pipeline.pseudonyms import HiddenRelevance, Pseudonyms
from monitor.pipeline.pull import Arms, pull_titles
from monitor.pipeline.shared_answers import SharedAnswers
from monitor.ports import Clock, Receiver, Store, UserSource
from monitor.receivers import RunPings, open_receivers
from monitor.service.runner import Watched
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import Settings, read_key
from monitor.settings.translation import policy_of, to_comparison, to_schedule
from monitor.sinks import ScoreFiles
from monitor.sources import (
    UsersOptions,
    all_users_problem,
    open_item_titles,
    open_item_weights,
    open_joined,
    open_relevance,
    open_source,
    open_users,
)
from monitor.sources.kept_answers import AnswerFolder
from monitor.storage.database_url import file_of, parse_url

log = structlog.get_logger(__name__)

PINGS_S = 3.0
"""How long pings may still go out once everything else is closed."""
LATELY = timedelta(hours=1)
"""How long a dead delivery is shown."""
_answer_folder = cache(AnswerFolder)  # one for all of a family


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """One configuration with everything it names opened, the store apart."""

    settings: Settings
    watched: dict[str, Watched]
    receivers: tuple[Receiver, ...]
    policy: NotificationPolicy
    pseudonyms: Pseudonyms | None = None
    pings: tuple[RunPings, ...] = ()
    shared: Mapping[str, SharedAnswers] = field(default_factory=dict)
    selectors: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)

    def find_user(self, asked: str) -> str:
        """What a user goes by in all that is stored, of the id that a person asks for."""
        return asked if self.pseudonyms is None else self.pseudonyms.find(asked)

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """Names of those that each announced transition is delivered to."""
        return tuple(receiver.name for receiver in self.receivers)

    def close(self, timeout_s: float = PINGS_S) -> None:
        """Send every ping that waits, for so long at most."""
        ends_at = time.monotonic() + timeout_s
        for ping in self.pings:
            ping.close(timeout_s=ends_at - time.monotonic())

    def renew_sources(self, comparison: str) -> None:
        """Reopen a comparison's sources: a hung run holds the old ones."""
        for each in self.settings.comparisons:
            if each.name == comparison and comparison in self.watched:
                renewed = watch(each, self.settings, self.pseudonyms, self.shared.get(each.family))
                self.watched[comparison] = _with_selectors(renewed, self.selectors)


def wire(settings: Settings, *, on_ping: Callable[[str, str], None] = lambda *_: None) -> Wiring:
    """Open the sources and receivers that the settings name.

    ``on_ping`` gets the outcome of each dead-man ping.
    """
    if (exposed := settings.privacy.exposure) is not None:
        log.warning("key of users readable by every account", reason=exposed)
    key_file = settings.privacy.key_file
    pseudonyms = None if key_file is None else Pseudonyms(read_key(key_file))
    shared = {each.family: SharedAnswers() for each in settings.comparisons if each.candidates}
    policy = policy_of(settings)
    watched = {
        each.name: watch(each, settings, pseudonyms, shared.get(each.family))
        for each in settings.comparisons
    }
    selectors = share_selectors(policy.selectors, [each.comparison for each in watched.values()])
    return Wiring(
        settings=settings,
        watched={name: _with_selectors(each, selectors) for name, each in watched.items()},
        receivers=open_receivers(settings.receivers, external_url=settings.external_url),
        policy=policy,
        pseudonyms=pseudonyms,
        pings=tuple(RunPings(each, on_outcome=on_ping) for each in settings.pings),
        shared=shared,
        selectors=selectors,
    )


def _with_selectors(
    watched: Watched, selectors: Mapping[str, Mapping[str, tuple[str, ...]]]
) -> Watched:
    comparison = watched.comparison
    judging = replace(comparison.judging, selectors=selectors[comparison.name])
    return replace(watched, comparison=replace(comparison, judging=judging))


def set_known_names(
    publisher: PrometheusPublisher, wiring: Wiring, *, pings: Sequence[str] = ()
) -> None:
    """Have metrics for the comparisons, receivers and ``pings`` of this wiring, and for no others."""
    publisher.watch(
        tuple(wiring.watched),
        wiring.receiver_names,
        intervals={name: watched.schedule.longest for name, watched in wiring.watched.items()},
        stale_after={name: watched.staleness_limit for name, watched in wiring.watched.items()},
        pings=pings,
        max_series=wiring.settings.max_series,
    )


def show_outbox(store: Store, publisher: PrometheusPublisher, now: datetime) -> None:
    """Publish how many deliveries wait, are held back and were lately given up.

    DatabaseError when it cannot be read.
    """
    outbox = store.outbox
    publisher.outbox(
        outbox.waiting(now), outbox.waiting(now, held=True), outbox.given_up(since=now - LATELY)
    )


def watch(
    options: ComparisonOptions,
    settings: Settings,
    pseudonyms: Pseudonyms | None = None,
    shared: SharedAnswers | None = None,
) -> Watched:
    """Open one comparison's sources.

    ``shared``: what its family asks together. The installation's name labels its alerts.
    """
    floor = options.noise_floor
    again = None if floor is None else options.baseline if floor.serve else floor.retrain
    relevance = open_relevance(options.relevance) if options.relevance else None
    arms = Arms(
        baseline=open_source(options.baseline),
        candidate=open_source(options.candidate),
        users=open_users(options.users, options.baseline),
        dimensions=tuple(options.users.segments),
        weights=open_item_weights(options.item_weights) if options.item_weights else None,
        titles=open_item_titles(options.item_titles) if options.item_titles else None,
        relevance=HiddenRelevance(relevance, pseudonyms) if relevance and pseudonyms else relevance,
        again=None if again is None else open_source(again),
        joined=open_joined(options.baseline, options.candidate, options.users, again),
        scores_to=ScoreFiles(path=options.scores_to.given.path) if options.scores_to else None,
        pseudonyms=pseudonyms,
        listed=_listed(options),
    )
    comparison = _installed(to_comparison(options), settings)
    is_live = options.baseline.is_live or options.candidate.is_live
    if shared is not None:
        arms = shared.shared_by(comparison, arms)
    answers = _answers_of(options.family, settings) if is_live else None
    return Watched(
        comparison=comparison,
        arms=arms,
        schedule=to_schedule(options),
        answers=answers,
        is_live=is_live,
    )


def _listed(options: ComparisonOptions) -> dict[Arm, UserSource]:
    lists = {Arm.BASELINE: options.baseline, Arm.CANDIDATE: options.candidate}
    everybody = UsersOptions(all=True)
    return {
        arm: open_users(everybody, each)
        for arm, each in lists.items()
        if all_users_problem(each) is None
    }


def _answers_of(family: str, settings: Settings) -> AnswerFolder | None:
    file = file_of(parse_url(settings.database))
    folder = settings.answers_folder or (file and f"{file}-answers")
    count = sum(each.family == family for each in settings.comparisons)
    return (
        _answer_folder(Path(folder), family, count)
        if folder and settings.privacy.users == "plain"
        else None
    )


def _installed(comparison: Comparison, settings: Settings) -> Comparison:
    labels = {} if settings.installation is None else {INSTALLATION: settings.installation}
    rules = tuple(
        replace(rule, labels={**labels, **rule.labels}) for rule in comparison.judging.rules
    )
    shows_items = settings.privacy.items == "shown"
    return replace(
        comparison, judging=replace(comparison.judging, rules=rules, shows_items=shows_items)
    )


def reconcile(wiring: Wiring, store: Store, clock: Clock) -> None:
    """Bring the store in line with the configuration.

    Alerts without a rule or comparison end, and receivers are notified; deliveries to removed
    receivers are dropped, those that a receiver rejected are retried while the alert still fires.
    """
    # One database belongs to one configuration: what this one does not name counts as removed.
    comparisons = [watched.comparison for watched in wiring.watched.values()]
    ends = retire_alerts(store.alerts.states(), store.alerts.firing(), comparisons, at=clock.now())
    if ends:
        store.alerts.retire(ends, receivers=wiring.receiver_names)
    store.outbox.give_up_unknown(known=wiring.receiver_names, now=clock.now())
    store.outbox.retry_refused(clock.now(), receivers=wiring.receiver_names)


def require_reloadable(new: Settings, old: Settings) -> Settings:
    """The new settings; ConfigError when they change what a running daemon cannot change."""
    unchanged = {
        "database": new.database.get_secret_value() == old.database.get_secret_value(),
        "listen": new.listen_address == old.listen_address,
        "lease": new.lease == old.lease,
    }
    if changed := [key for key, is_same in unchanged.items() if not is_same]:
        raise ConfigError(
            (
                f"{' and '.join(changed)} cannot change while the daemon runs: restart it, or put "
                "back the old value"
            )
        )
    return new


_WAIT_S = 2.0
_PAUSE_S = 60.0
"""How long a source that gave no titles is not asked again: pages, and all parts of a report, are made without."""
_MOST = 50_000


class TitleCache:
    """Titles by comparison and item, of the wiring in force.

    An item without a title is asked for again with the next page.
    """

    def __init__(
        self, wiring: Callable[[], Wiring], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._wiring, self._monotonic = wiring, monotonic
        self._known: dict[tuple[str, str], str] = {}
        self._asked_again_at: dict[str, float] = {}

    def __call__(
        self, comparison: str, slot: datetime, items: Collection[str]
    ) -> Mapping[str, str]:
        """Titles of these items.

        Those of a source that fails, or does not answer in two seconds, are left out.
        """
        unknown = {item for item in items if (comparison, item) not in self._known}
        watched = self._wiring().watched.get(comparison)
        if (
            unknown
            and watched is not None
            and self._monotonic() >= self._asked_again_at.get(comparison, 0.0)
        ):
            found, trouble = pull_titles(watched.arms.titles, slot, unknown, _WAIT_S)
            if trouble is not None:
                self._asked_again_at[comparison] = self._monotonic() + _PAUSE_S
            if len(self._known) + len(found) > _MOST:
                self._known.clear()
            self._known |= {(comparison, item): title for item, title in found.items()}
        return {
            item: self._known[comparison, item]
            for item in items
            if (comparison, item) in self._known
        }
