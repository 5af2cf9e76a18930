# ruff: noqa: F401 - fixtures
from servers.certificates import authority, client_pair, server_pair
from servers.recommender import recommender
from servers.smtp import certificate, mail_server
from servers.webhook import collector
from web.conftest import health
