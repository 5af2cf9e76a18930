from servers.recommender import recommender  # noqa: F401 - a fixture
