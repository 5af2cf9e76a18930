"""One run of a comparison over given arms, without a daemon."""

from factories import DAY, SLOT, comparison
from monitor.service.runner import Runner, WatchedComparison
from monitor.settings.schedule import Every
from pipeline.canned import StillClock


def watch(arms, what=None, **changes):
    """A daily comparison of these arms."""
    what = what or comparison()
    return WatchedComparison(comparison=what, sources=arms, schedule=Every(DAY), **changes)


def runner(store, **options):
    return Runner(store=store, clock=StillClock(), **options)


def run_slot(store, watched, *, rerun=False, **options):
    return runner(store, **options).run(watched, SLOT, receivers=(), rerun=rerun)
