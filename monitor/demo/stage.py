"""Everything around the daemon: the two recommenders, the users, on-call, and the configuration that names them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from monitor.demo.arms import Arms
from monitor.demo.configuration import Addresses, write_configuration
from monitor.demo.oncall import OnCall
from monitor.demo.place import Place, choose_port, occupy, write_secret
from monitor.demo.serving import HOST, serve


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What the daemon is surrounded by."""

    place: Place
    arms: Arms
    on_call: OnCall


@contextmanager
def open_stage(directory: Path, *, every: str) -> Iterator[Stage]:
    """Build the stage on day 0 in the directory, serve it while the block lasts. ConfigError when the directory will not do."""
    with ExitStack() as stack:
        place = stack.enter_context(occupy(directory))
        on_call = OnCall(write_secret(place))
        arms = Arms(place=place)
        arms.serve(arms.train(0, is_broken=False))
        addresses = Addresses(
            listen=f"{HOST}:{choose_port()}",
            baseline=stack.enter_context(serve(arms.baseline.app(), name="baseline")),
            candidate=stack.enter_context(serve(arms.candidate.app(), name="candidate")),
            hook=stack.enter_context(serve(on_call.app(), name="on-call")) + "/page",
        )
        write_configuration(place, addresses, every=every)
        yield Stage(place=place, arms=arms, on_call=on_call)
