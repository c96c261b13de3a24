from __future__ import annotations

import re

from ballast.serving.board import Board
from tests.unit.serving.client import ask
from tests.unit.serving.world import serving


def test_the_page_talks_to_this_daemon_alone() -> None:
    with serving(Board()) as port:
        page = ask(port, "/")
        text = page.body.decode()
        linked = re.findall(r'(?:src|href)="([^"#]+)"', text)
        files = [ask(port, path) for path in linked if path.startswith("/page/")]
        assert {path for path in linked if ask(port, path).status == 404} == set()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert all(path.startswith("/") and not path.startswith("//") for path in linked)
    assert not re.search(r"<script>|<style>|\sstyle=|\son\w+=", text)
    assert len(files) >= 3
    for file in files:
        assert file.headers["x-content-type-options"] == "nosniff"
        outside = file.body.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"http://" not in outside
        assert b"https://" not in outside
        assert b"innerHTML" not in outside


def test_without_javascript_the_page_says_where_the_facts_are() -> None:
    with serving(Board()) as port:
        text = ask(port, "/").body.decode()
    spoken = text[text.index("<noscript>") : text.index("</noscript>")]
    assert "/readyz?verbose" in spoken
    assert "/api/v1/nodes" in spoken


def test_an_unchanged_page_is_304() -> None:
    with serving(Board()) as port:
        etag = ask(port, "/").headers["etag"]
        assert ask(port, "/", if_none_match=etag).status == 304
