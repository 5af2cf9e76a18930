# ruff: noqa: F401 - fixtures
from servers.alertmanager import make_alertmanager
from servers.certificates import authority, client_pair, server_pair
from servers.pgbouncer import pooled
from servers.recommender import recommender
from servers.smtp import certificate, mail_server
from servers.webhook import collector
