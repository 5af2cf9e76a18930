"""Opens the parts that the settings name. Only this module selects adapters for ports."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import structlog

from monitor.alerts.notification_policy import NotificationPolicy
from monitor.alerts.state_machine import retire_alerts
from monitor.alerts.unmatched_names import share_selectors
from monitor.export.publisher import PrometheusPublisher
from monitor.model.alerts import Transition
from monitor.model.errors import ConfigError
from monitor.model.ports import Clock, Receiver, RelevanceSource, UserSource, do_nothing
from monitor.model.rankings import Arm
from monitor.model.rules import Comparison
from monitor.pipeline.pseudonyms import HiddenRelevance, Pseudonyms
from monitor.pipeline.pull import ComparisonSources, OutcomeSources, UnpairedSources
from monitor.pipeline.shared_answers import SharedAnswers
from monitor.receivers import open_receivers
from monitor.receivers.pings import RunPings
from monitor.service.runner import WatchedComparison
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import Settings, read_key
from monitor.settings.translation import (
    comparisons_of,
    complete_comparison,
    policy_of,
    to_comparison,
    to_schedule,
)
from monitor.settings.unpaired_options import UnpairedOptions
from monitor.sources import (
    UsersOptions,
    all_users_problem,
    open_assigned,
    open_item_titles,
    open_item_weights,
    open_joined,
    open_log,
    open_outcomes,
    open_relevance,
    open_source,
    open_users,
)
from monitor.sources.kept_answers import AnswerFolder
from monitor.storage import SqlStore
from monitor.storage.database_url import file_of, parse_url
from monitor.storage.score_files import ScoreFiles
from monitor.texts.unpaired import write_changed_split

log = structlog.get_logger(__name__)

PINGS_S = 3.0
"""The time limit for sending pending pings when the daemon stops."""
DEAD_LATELY = timedelta(hours=1)
"""Metrics count the deliveries that became dead within this time."""
_answer_folder = cache(AnswerFolder)  # the comparisons of a family share one folder


@dataclass(slots=True, kw_only=True)
class Wiring:
    """One configuration, with all its opened parts except the store."""

    settings: Settings
    watched: dict[str, WatchedComparison]  # `renew_sources` replaces entries
    receivers: tuple[Receiver, ...]
    policy: NotificationPolicy
    pseudonyms: Pseudonyms | None = None
    pings: tuple[RunPings, ...] = ()
    reopen: Callable[[ComparisonOptions], WatchedComparison]  # opens the sources again

    def find_user(self, user_id: str) -> str:
        """Return the stored id of a user. It is a keyed hash if the privacy settings demand one."""
        if self.pseudonyms is None:
            return user_id
        return self.pseudonyms.find(user_id)

    @property
    def comparisons(self) -> dict[str, Comparison]:
        """All comparisons by name."""
        return {name: watched.comparison for name, watched in self.watched.items()}

    @property
    def receiver_names(self) -> tuple[str, ...]:
        """The names of all receivers. Each announced transition is delivered to them."""
        return tuple(receiver.name for receiver in self.receivers)

    def close(self) -> None:
        """Send pending pings for at most `PINGS_S` seconds."""
        ends_at = time.monotonic() + PINGS_S
        for ping in self.pings:
            ping.close(timeout_s=ends_at - time.monotonic())

    def renew_sources(self, comparison: str) -> None:
        """Open the sources of a comparison again, because its run hangs."""
        options = self.settings.comparisons_by_name.get(comparison)
        if options is not None:
            self.watched[comparison] = self.reopen(options)


def open_wiring(settings: Settings, *, on_ping: Callable[[str, str], None] = do_nothing) -> Wiring:
    """Open the sources and receivers of the settings.

    ``on_ping`` gets the outcome of each ping.
    """
    exposed = settings.privacy.key_warning
    if exposed is not None:
        log.warning("every account can read the key of user ids", reason=exposed)
    key_file = settings.privacy.key_file
    pseudonyms = None if key_file is None else Pseudonyms(read_key(key_file))
    shared = {}
    for comparison in settings.comparisons:
        if comparison.candidates:
            shared[comparison.family] = SharedAnswers()
    policy = policy_of(settings)
    selectors = share_selectors(policy.selectors, comparisons_of(settings).values())

    def reopen(options: ComparisonOptions) -> WatchedComparison:
        return open_comparison(
            options,
            settings,
            pseudonyms,
            shared=shared.get(options.family),
            selectors=selectors[options.name],
        )

    return Wiring(
        settings=settings,
        watched={name: reopen(options) for name, options in settings.comparisons_by_name.items()},
        receivers=open_receivers(settings.receivers, external_url=settings.external_url),
        policy=policy,
        pseudonyms=pseudonyms,
        pings=tuple(RunPings(ping, on_outcome=on_ping) for ping in settings.pings),
        reopen=reopen,
    )


def set_known_names(
    publisher: PrometheusPublisher,
    wiring: Wiring,
    *,
    pings: Sequence[str] = (),
) -> None:
    """Export metrics only for the comparisons and receivers of this wiring, and for these pings."""
    publisher.register(
        tuple(wiring.watched),
        wiring.receiver_names,
        intervals=wiring.policy.intervals,
        stale_after={name: watched.staleness_limit for name, watched in wiring.watched.items()},
        pings=pings,
        max_series=wiring.settings.max_series,
    )


def show_outbox(store: SqlStore, publisher: PrometheusPublisher, now: datetime) -> None:
    """Publish how many deliveries are pending, are held back or have recently become dead.

    Raises DatabaseError if the database cannot be read.
    """
    outbox = store.outbox
    publisher.show_deliveries(
        outbox.waiting(now),
        outbox.waiting(now, held=True),
        outbox.given_up(since=now - DEAD_LATELY),
    )


def open_comparison(
    options: ComparisonOptions,
    settings: Settings,
    pseudonyms: Pseudonyms | None = None,
    *,
    shared: SharedAnswers | None = None,
    selectors: Mapping[str, tuple[str, ...]] | None = None,
) -> WatchedComparison:
    """Open the sources of one comparison.

    ``shared`` has the answers that all comparisons of the family use. ``selectors`` are those
    matchers of the configuration that only alerts of this comparison can match. The name of the
    installation becomes a label of the alerts.
    """
    sources = _open_sources(options, pseudonyms)
    comparison = complete_comparison(options, settings, selectors)
    is_live = options.baseline.is_live or options.candidate.is_live
    if shared is not None:
        sources = shared.shared_by(comparison, sources)
    answers = _answers_of(options.family, settings) if is_live else None
    return WatchedComparison(
        comparison=comparison,
        sources=sources,
        schedule=to_schedule(options),
        answers=answers,
        is_live=is_live,
    )


def _open_sources(options: ComparisonOptions, pseudonyms: Pseudonyms | None) -> ComparisonSources:
    """Open all sources of one comparison."""
    baseline = options.baseline
    # The source of the second list for the noise floor. A temporal noise floor needs none, because
    # it uses the lists of the last run.
    second_baseline = None
    if options.noise_floor is not None:
        second_baseline = baseline if options.noise_floor.serve else options.noise_floor.retrain
    relevance: RelevanceSource | None = None
    if options.relevance is not None:
        relevance = open_relevance(options.relevance)
        if pseudonyms is not None:
            relevance = HiddenRelevance(relevance, pseudonyms)
    scores_to = None
    if options.scores_to is not None:
        scores_to = ScoreFiles(path=options.scores_to.kind_options.path)
    sources = ComparisonSources(
        baseline=open_source(baseline),
        candidate=open_source(options.candidate),
        users=open_users(options.users, baseline),
        dimensions=tuple(options.users.segments),
        weights=open_item_weights(options.item_weights) if options.item_weights else None,
        titles=open_item_titles(options.item_titles) if options.item_titles else None,
        relevance=relevance,
        second_baseline=None if second_baseline is None else open_source(second_baseline),
        joined=open_joined(baseline, options.candidate, options.users, second_baseline),
        scores_to=scores_to,
        pseudonyms=pseudonyms,
        listed=_open_listed_users(options),
    )
    if options.unpaired is not None:
        sources = replace(sources, listed={}, unpaired=_open_unpaired(options.unpaired))
    return sources


def _open_unpaired(options: UnpairedOptions) -> UnpairedSources:
    """Open the sources of an unpaired comparison.

    Without ``assignments``, the log of served lists also says which users are assigned.
    """
    listed = {}
    served_log = None
    served = None
    if options.assignments is None:
        served_log = open_log(options.lists_before, options.lists_of(*Arm), options.assigned)
    else:
        listed = dict.fromkeys(Arm, open_users(options.served_since, options.log))
        served = open_users(options.served_users, options.log)
    outcomes = None
    if options.outcomes:
        outcomes = OutcomeSources(
            users=open_users(options.assigned, options.log),
            now=open_outcomes(options.served_since),
            before=open_outcomes(options.outcomes_before),
        )
    return UnpairedSources(
        lists={arm: open_source(options.lists_of(arm)) for arm in Arm},
        assigned=open_assigned(options.assigned),
        outcomes=outcomes,
        listed=listed,
        served=served,
        log=served_log,
    )


def _open_listed_users(options: ComparisonOptions) -> dict[Arm, UserSource]:
    """Return the users that each arm has lists for, if the arm's source can list its users."""
    all_users = UsersOptions(all=True)
    listed = {}
    for arm, source in ((Arm.BASELINE, options.baseline), (Arm.CANDIDATE, options.candidate)):
        if all_users_problem(source) is None:
            listed[arm] = open_users(all_users, source)
    return listed


def _answers_of(family: str, settings: Settings) -> AnswerFolder | None:
    """Return the folder that keeps the answers of a family's runs, or None if there is no folder.

    Answers contain user ids, so none are kept if user ids are hashed.
    """
    if settings.privacy.users != "plain":
        return None
    folder = settings.answers_folder
    if folder is None:
        file = file_of(parse_url(settings.database))
        if file is None:
            return None
        folder = f"{file}-answers"
    count = sum(options.family == family for options in settings.comparisons)
    return _answer_folder(Path(folder), family, count)


def adapt_store(wiring: Wiring, store: SqlStore, clock: Clock) -> tuple[Transition, ...]:
    """Adapt the store to the configuration. Returns the ends of alerts.

    An alert ends if its rule or its comparison is no longer configured. Receivers are notified of
    the end. Deliveries to removed receivers are dropped. Rejected deliveries are retried if the
    alert still fires.
    """
    # A database belongs to one configuration. If the configuration does not name a stored
    # comparison, rule or receiver, somebody has removed it.
    comparisons = [watched.comparison for watched in wiring.watched.values()]
    ends = retire_alerts(store.alerts.states(), store.alerts.firing(), comparisons, at=clock.now())
    if ends:
        store.alerts.retire(ends, receivers=wiring.receiver_names)
    for comparison, count in Counter(end.comparison for end in ends).items():
        log.warning("alerts without a rule ended", comparison=comparison, alerts=count)
    dropped = store.outbox.give_up_removed(configured=wiring.receiver_names, now=clock.now())
    if dropped:
        log.warning("deliveries to removed receivers dropped", deliveries=dropped)
    store.outbox.retry_refused(clock.now(), receivers=wiring.receiver_names)
    return ends


def _refuse_changed_splits(new: Settings, old: Settings) -> None:
    """Raise ConfigError if the planned split of a test changes, but nothing else about the test.

    With another start of the test, the hash of the configuration differs.
    """
    old_plans = {}
    for options in old.comparisons:
        comparison = to_comparison(options)
        old_plans[comparison.name, comparison.config_hash] = comparison.measuring.unpaired
    for options in new.comparisons:
        comparison = to_comparison(options)
        plan = comparison.measuring.unpaired
        old_plan = old_plans.get((comparison.name, comparison.config_hash))
        if plan and old_plan and plan.baseline_share != old_plan.baseline_share:
            problem = write_changed_split(plan.baseline_share, old_plan.baseline_share)
            raise ConfigError(f"{comparison.name}: {problem}")


def require_reloadable(new: Settings, old: Settings) -> Settings:
    """Return the new settings.

    Raises ConfigError if they change a setting that needs a restart, or the split of a test that
    goes on.
    """
    _refuse_changed_splits(new, old)
    unchanged = {
        "database": new.database.get_secret_value() == old.database.get_secret_value(),
        "listen": new.listen_address == old.listen_address,
        "lease": new.lease == old.lease,
    }
    changed = [key for key, is_same in unchanged.items() if not is_same]
    if changed:
        raise ConfigError(
            f"{' and '.join(changed)} cannot change while the daemon runs: restart it, or restore "
            "the old value"
        )
    return new
