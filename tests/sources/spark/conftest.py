from sources.file.test_joined import files  # noqa: F401 - a fixture
