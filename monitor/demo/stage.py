"""Everything around the daemon: the two recommenders, the users, on-call, and the configuration that names them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from monitor.demo.configuration import Addresses, write_configuration
from monitor.demo.oncall import OnCall
from monitor.demo.place import Place, choose_port, occupy, write_secret, write_users
from monitor.demo.recommender import Recommender
from monitor.demo.serving import HOST, serve
from monitor.demo.shop import Retrained, retrain
from monitor.demo.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A world that is being recommended to."""

    place: Place
    world: World
    baseline: Recommender
    candidate: Recommender
    on_call: OnCall

    def train(self, day: int, *, is_broken: bool) -> Retrained:
        """Train both arms on the day; nothing is served yet."""
        return retrain(self.world, day, is_broken=is_broken)

    def serve(self, trained: Retrained) -> None:
        """Let the day begin: serve the new lists, then publish the day's users.

        Who left today still gets the last lists: a run under way may ask for them.
        """
        left = self.world.left_on(trained.day)
        for arm, lists in ((self.baseline, trained.baseline), (self.candidate, trained.candidate)):
            arm.lists = {user: arm.lists[user] for user in left if user in arm.lists} | lists
        write_users(self.place, trained.history)


@contextmanager
def open_stage(directory: Path, *, every: str) -> Iterator[Stage]:
    """Build the stage on day 0 in the directory, serve it while the block lasts. ConfigError when the directory will not do."""
    with ExitStack() as stack:
        place = stack.enter_context(occupy(directory))
        on_call = OnCall(write_secret(place))
        stage = Stage(place=place, world=World(), baseline=Recommender({}), candidate=Recommender({}), on_call=on_call)
        stage.serve(stage.train(0, is_broken=False))
        addresses = Addresses(
            listen=f"{HOST}:{choose_port()}",
            baseline=stack.enter_context(serve(stage.baseline.app(), name="baseline")),
            candidate=stack.enter_context(serve(stage.candidate.app(), name="candidate")),
            hook=stack.enter_context(serve(on_call.app(), name="on-call")) + "/page",
        )
        write_configuration(place, addresses, every=every)
        yield stage
