"""Where the files to deploy stand, and the story that is played with them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.story import Story, told

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def story(deploy: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """See `story.told`: played once; its Prometheus answers queries about each chapter until the end."""
    with told(deploy, tmp_path_factory.mktemp("story")) as played:
        yield played


@pytest.fixture(scope="session")
def deploy() -> Path:
    return ROOT / "deploy"
