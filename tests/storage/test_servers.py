import psycopg
import pytest
from sqlalchemy import create_engine, text

from servers.postgres import PASSWORD, PostgresServer


def test_a_database_url_answers_and_is_empty(database_url: str) -> None:
    engine = create_engine(database_url)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1
    engine.dispose()


def test_the_private_postgres_refuses_a_wrong_password(postgres_server: PostgresServer) -> None:
    url = postgres_server.url("postgres").replace("+psycopg", "").replace(PASSWORD, "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url)
