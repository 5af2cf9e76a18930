from servers.certificates import authority, client_pair, server_pair  # noqa: F401 - fixtures
from servers.recommender import recommender  # noqa: F401 - a fixture
