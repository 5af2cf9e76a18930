"""What an author's own tests are: the contracts of the port, and where what they ask for stands."""

import json
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from rankwatch_example import SameTop

from monitor.testing import MetricContract, ReceiverContract, SourceContract


class TestShelf(SourceContract):
    @pytest.fixture
    def serving(self, tmp_path):
        @contextmanager
        def served(lists):
            for user, items in lists.items():
                (tmp_path / f"{quote(user, safe='')}.json").write_text(json.dumps(items))
            yield {"shelf": {"folder": str(tmp_path)}}

        return served


class TestSameTop(MetricContract):
    @pytest.fixture(params=[None, 3])
    def metric(self, request):
        return SameTop(depth=request.param)


class TestLogbook(ReceiverContract):
    @pytest.fixture
    def present(self, tmp_path):
        return {"logbook": {"path": str(tmp_path / "log.txt")}}

    @pytest.fixture
    def away(self, tmp_path):
        return {"logbook": {"path": str(tmp_path / "nowhere" / "log.txt")}}
