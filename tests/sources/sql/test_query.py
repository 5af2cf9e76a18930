"""A query is parsed once: its names are bound in the usual forms, or it is refused when the configuration is loaded."""

import pytest
from pydantic import ValidationError

from monitor.sources.sql.query import parse_query
from servers.lists import as_lists, fill_database, pull_of, source_of
from sources.sql.test_lists import COLUMNS

LIST_FORMS = [
    "who IN :users",
    "who IN(:users)",
    "who in( :users )",
    "who IN:users",
    "who IN /* of the panel */ ((:users))",
    "who = ANY(:users)",
    "who =any (\n :users )",
    "who = SOME (:users) OR who IN :users",
    "what <> ':nobody' -- IN :nobody, it's a comment\n AND NOT who NOT IN (:users)",
]
ARRAY_FORMS = [
    "who IN (SELECT unnest(:users))",
    "who = ANY(:users::text[])",
    "who::text = ANY((:users)::varchar(9)[])",
    "who = ANY(CAST(:users AS text[]))",
    "NOT who <> ALL(:users) AND what::text <> $$ :nobody $$ AND what <> E'it\\'s :nobody'",
]
REFUSED = [
    "who = :users",
    "who LIKE :users",
    "who IN (:users, 'u3')",
    "who IN ('u3', :users)",
    "who = ANY(ARRAY[:users])",
]


def assert_users_are_bound(url, form):
    fill_database(url, {"u1": [1], "u2": [2], "it's": [3]})
    query = f"SELECT who, what FROM wide WHERE {form}"

    pull = pull_of("u1", "it's", sql=COLUMNS | {"url": url, "query": query})

    assert as_lists(pull) == {"u1": ["1"], "it's": ["3"]}


@pytest.mark.parametrize("form", LIST_FORMS)
def test_usual_forms_of_a_list_of_users_are_bound(form, database_url):
    assert_users_are_bound(database_url, form)


@pytest.mark.parametrize("form", ARRAY_FORMS)
def test_arrays_of_users_are_bound_in_postgresql(form, postgres_url):
    assert_users_are_bound(postgres_url, form)


def test_other_forms_are_refused_with_the_form_that_works():
    for form in [*REFUSED, *ARRAY_FORMS[:2]]:
        with pytest.raises(
            ValidationError,
            match="in a form that sqlite does not accept: write WHERE user_id IN :users",
        ):
            source_of(
                sql=COLUMNS | {"url": "sqlite:///a.db", "query": f"SELECT * FROM t WHERE {form}"}
            )


def test_strings_comments_casts_and_escaped_colons_bind_nothing():
    code = (
        "SELECT '12:30', ':a', 'it''s :b', \"c :c\", d::text, e\\:f, g[1:2] /* :h */ FROM t -- :i"
    )
    backslash = r"SELECT 'it\'s :a', `:b` FROM t # :c"

    assert not parse_query(code, "postgresql").names
    assert not parse_query(backslash, "mysql").names
    assert parse_query(r"SELECT '\' WHERE u IN :users AND t < :slot", "sqlite").names == {
        "users",
        "slot",
    }
