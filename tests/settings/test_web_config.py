"""The web configuration file: each file in ../web/bad breaks the rule it is named for, and says exactly what is reported."""

import os

import pytest

from monitor.model.errors import ConfigError
from monitor.settings.loader import load_settings, parse_settings
from monitor.web.access_options import AccessOptions
from places import ROOT
from settings.minimal import MINIMAL, expected, uncommented

BAD = sorted((ROOT / "tests/web/bad").glob("*.yaml"))
EXAMPLE = ROOT / "config" / "web.yaml"
HASH = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi"
CLIENTS = (
    "{cert_file: a, key_file: b, client_ca_file: c, client_auth_type: RequireAndVerifyClientCert}"
)
TLS = "tls_server_config: {cert_file: a, key_file: b}"


def load_with(folder, web, **other):
    (folder / "web.yaml").write_text(web)
    given = "".join(
        f"{key}: {value}\n" for key, value in {"web_config_file": "web.yaml", **other}.items()
    )
    (folder / "rankwatch.yaml").write_text(given + MINIMAL)
    return load_settings(folder / "rankwatch.yaml", {})


def refusal(folder, web, **other):
    with pytest.raises(ConfigError) as caught:
        load_with(folder, web, **other)
    return str(caught.value)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_file_is_reported_exactly_so_and_its_secrets_never_are(tmp_path, path):
    assert len(BAD) > 15
    text = path.read_text()
    said = refusal(tmp_path, text, listen="0.0.0.0:29108")
    assert said.splitlines() == [f"{tmp_path / 'web.yaml'}:{line}" for line in expected(text)]
    assert "hunter2" not in said


def test_problems_of_both_files_are_reported_at_once(tmp_path):
    ours, webs = refusal(tmp_path, "zzz: 1\n", lease="1s").splitlines()
    assert ours.startswith(f"{tmp_path}/rankwatch.yaml:")
    assert webs.startswith(f"{tmp_path}/web.yaml:")


def test_a_file_that_is_none_or_too_large_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "/dev/zero", "."):
        said = refusal(tmp_path, "", web_config_file=name)
        assert said.endswith(": cannot be read: it is not a file")
    said = refusal(tmp_path, "#" * ((1 << 18) + 1))
    assert said.endswith("is larger than 256 KiB, which is too large for a configuration")


TEXTS = {
    'tls_server_config: {cert_file: "U", key_file: b}': "tls_server_config.cert_file",
    f"basic_auth_users: {{\"U\": '{HASH}'}}": "basic_auth_users",
}


def test_no_text_holds_what_no_file_and_no_page_can_take(tmp_path):
    for web, key in TEXTS.items():
        said = f'{tmp_path}/web.yaml:1: {key}: contains "\\0" or half of a character: remove it'
        for unfit in (r"\0", r"\ud800", r"\x00x", r"x\udfff"):
            assert refusal(tmp_path, web.replace("U", unfit)) == said


def test_neither_does_a_text_of_the_main_file_or_of_its_variables(tmp_path):
    for text in (r'"a\0"', '"${X}"'):
        with pytest.raises(ConfigError, match=r":1: database: contains .* or half of a character"):
            parse_settings(
                f"database: {text}\n{MINIMAL}",
                name="x",
                base_dir=tmp_path,
                environ={"X": os.fsdecode(b"\xff")},
            )


def test_the_example_is_right_and_its_optional_lines_are_too(tmp_path):
    text = EXAMPLE.read_text()
    options = load_with(tmp_path, text, listen="0.0.0.0:29108").access
    assert set(options.basic_auth_users) == {"prometheus"}
    assert options.tls_server_config.cert_file == str(tmp_path / "web.crt")

    options = load_with(tmp_path, uncommented(text)).access
    optional = {"client_ca_file", "client_allowed_sans", "min_version"}
    assert options.tls_server_config.model_fields_set >= optional


def test_a_file_that_changes_after_it_was_read_changes_no_access(tmp_path):
    settings = load_with(tmp_path, EXAMPLE.read_text(), listen="0.0.0.0:29108")
    (tmp_path / "web.yaml").write_text("")
    assert set(settings.access.basic_auth_users) == {"prometheus"}


REFUSAL = (
    ": listen: can be reached from other machines, and web_config_file names no users (TLS alone "
    "keeps nobody out): use 127.0.0.1, or give a web_config_file with basic_auth_users or "
    "client_auth_type: RequireAndVerifyClientCert, or set listen_without_authentication: true"
)


def test_beyond_this_machine_it_takes_passwords_or_verified_certificates(tmp_path):
    for listen in ["0.0.0.0:29108", ":29108", "rankwatch.example.com:29108"]:
        for web in (f"basic_auth_users: {{kim: '{HASH}'}}", f"tls_server_config: {CLIENTS}"):
            load_with(tmp_path, web, listen=listen)
        given = CLIENTS.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven")
        for web in (TLS, f"{TLS}\nbasic_auth_users: {{}}", f"tls_server_config: {given}", ""):
            assert refusal(tmp_path, web, listen=listen).endswith(REFUSAL)
            load_with(tmp_path, web, listen=listen, listen_without_authentication="true")
            load_with(tmp_path, web, listen="127.0.0.1:29108")


def test_an_empty_file_asks_for_nothing_and_without_one_there_are_no_options(tmp_path):
    assert load_with(tmp_path, "# nothing\n").access == AccessOptions()
    (tmp_path / "rankwatch.yaml").write_text(MINIMAL)
    assert load_settings(tmp_path / "rankwatch.yaml", {}).access is None


def test_links_lead_to_https_with_tls_unless_external_url_is_set(tmp_path):
    assert load_with(tmp_path, TLS).external_url == "https://127.0.0.1:29108"
    assert load_with(tmp_path, "").external_url == "http://127.0.0.1:29108"
    assert load_with(tmp_path, TLS, external_url="http://x.test").external_url == "http://x.test"


def test_a_variable_is_no_variable_there(tmp_path):
    web = 'tls_server_config: {cert_file: "${X} $${Y}", key_file: b}'
    options = load_with(tmp_path, web).access
    assert options.tls_server_config.cert_file == str(tmp_path / "${X} $${Y}")
