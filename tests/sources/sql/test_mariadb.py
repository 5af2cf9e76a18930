"""Lists from MariaDB, by a driver that users install themselves."""

import pytest
from sqlalchemy.dialects import mysql

from monitor.model.errors import SourceError
from servers.lists import as_lists, fill_database, pull_of, sql_sources
from servers.mariadb import running_mariadb
from sources.sql.test_lists import COLUMNS, LISTS, assert_lists_are_read, assert_newest_lists_count
from sources.sql.test_query import LIST_FORMS, assert_users_are_bound

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def url():
    with running_mariadb() as url:
        fill_database(url, LISTS)
        yield url


def test_lists_are_read_in_every_form(url):
    assert_lists_are_read(url)


def test_the_newest_list_of_each_user_in_the_slot_counts_in_a_log_of_served_lists(url):
    assert_newest_lists_count(url, mysql.DATETIME(fsp=3), mysql.TIMESTAMP(fsp=6))


def test_a_source_never_writes(url):
    for statement in ("DELETE FROM wide", "DROP TABLE wide", "UPDATE wide SET what = '[]'"):
        with pytest.raises(SourceError, match=r"cannot be read: the query would do more than read"):
            pull_of("user's 1", sql=COLUMNS | {"url": url, "query": statement})

    assert len(as_lists(pull_of(*LISTS, sql=sql_sources(url)["sql table wide"]))) == len(LISTS)


def test_the_database_ends_a_query_that_runs_beyond_the_deadline(url):
    query = (
        "SELECT count(a.seq * b.seq) AS who, '[1]' AS what FROM seq_1_to_1000000 a, "
        "seq_1_to_1000000 b"
    )

    pull = pull_of("u", timeout_s=1, sql=COLUMNS | {"url": url, "query": query})

    assert pull.failures == {"u": "timeout"}


def test_usual_forms_of_a_list_of_users_are_bound(url):
    for form in LIST_FORMS:
        assert_users_are_bound(url, form)
    fill_database(url, LISTS)
