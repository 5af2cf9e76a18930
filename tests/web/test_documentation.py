"""The built documentation, as the daemon serves it under /docs/."""

import pytest

import published
from monitor.web.documentation import Documentation
from web.sites import running

PAGE = "<p>runbook</p>"


@pytest.fixture
def folder(tmp_path):
    site = tmp_path / "site"
    (site / "runbooks").mkdir(parents=True)
    (site / "index.html").write_text("<p>start</p>")
    (site / "runbooks/index.html").write_text("<p>all</p>")
    (site / "runbooks/SimilarityDrop.html").write_text(PAGE)
    (tmp_path / "secret.html").write_text("secret")
    return site


def application(folder):
    return published.pages(documentation=Documentation(folder))


@pytest.fixture
def site(folder):
    with running(application(folder)) as site:
        yield site


def test_a_runbook_opens_with_and_without_its_ending_and_a_folder_gets_its_slash(site):
    for path in ("runbooks/SimilarityDrop", "runbooks/SimilarityDrop.html"):
        status, headers, body = site.get(f"/docs/{path}")
        assert (status, body.decode()) == (200, PAGE)
        assert headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert site.get("/docs/runbooks/")[2] == b"<p>all</p>"
    for path in ("/docs", "/docs/runbooks"):
        status, headers, _ = site.get(path)
        assert (status, headers["location"]) == (308, f"{path}/")


def test_a_browser_that_has_a_page_gets_304(site):
    tag = site.get("/docs/")[1]["etag"]
    assert site.status("/docs/", **{"If-None-Match": tag}) == 304
    assert site.status("/docs/", **{"If-None-Match": '"other"'}) == 200


def test_no_path_leaves_the_folder(site):
    paths = "../secret", "..%2fsecret", "%2e%2e/secret.html", "/etc/passwd", "a/../../secret.html"
    for path in paths:
        status, _, body = site.get(f"/docs/{path}")
        assert status == 404
        assert b"There is no such page" in body


def test_an_installation_without_the_site_says_so(tmp_path):
    with running(application(tmp_path / "none")) as site:
        status, _, body = site.get("/docs/runbooks/SimilarityDrop")
    assert status == 404
    assert "<code>make wheel</code>" in body.decode()
