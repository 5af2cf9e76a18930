from cli.conftest import _current_folder  # noqa: F401 - a fixture
