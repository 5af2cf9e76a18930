"""Both recommenders over one world: retrained on a day, then served."""

from __future__ import annotations

from dataclasses import dataclass, field

from monitor.demo.place import Place, write_users
from monitor.demo.recommender import Recommender
from monitor.demo.shop import Retrained, retrain
from monitor.demo.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """A world that is being recommended to; its users stand in the place's users file."""

    place: Place
    world: World = field(default_factory=World)
    baseline: Recommender = field(default_factory=lambda: Recommender({}))
    candidate: Recommender = field(default_factory=lambda: Recommender({}))

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
