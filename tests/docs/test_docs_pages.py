"""The built pages: complete, searchable without a server, and without requests to other hosts."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest

from docs_tree import DOCS, pages

LOADING: Final = {
    ("img", "src"),
    ("script", "src"),
    ("link", "href"),
    ("source", "src"),
    ("iframe", "src"),
    ("use", "href"),
}
URL: Final = re.compile(r"url\(\s*['\"]?(?:https?:)?//|@import\s+['\"]?(?:https?:)?//")
PICTURE: Final = re.compile(r'<svg [^>]*role="img"[^>]*>(?:<title>)?')
FETCH: Final = re.compile(r"(?:fetch|importScripts|EventSource|WebSocket)\(\s*['\"`](?:https?|wss?):")


class _Parts(HTMLParser):
    """What a page loads, links to, and has as anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.loaded += [given[name] for of, name in LOADING if of == tag and name in given]
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if "id" in given:
            self.ids.add(given["id"])


@pytest.fixture(scope="module")
def parsed(built: Path) -> dict[Path, _Parts]:
    found = {}
    for path in sorted(built.rglob("*.html")):
        found[path] = _Parts()
        found[path].feed(path.read_text(encoding="utf-8"))
    return found


def test_every_page_is_built(built: Path) -> None:
    missing = [page for page in pages() if not (built / page.relative_to(DOCS)).with_suffix(".html").is_file()]
    assert missing == []


def test_nothing_is_loaded_from_another_host(built: Path, parsed: dict[Path, _Parts]) -> None:
    foreign = {url for parts in parsed.values() for url in parts.loaded if urlsplit(url).netloc}
    assert foreign == set()
    texts = [path for path in built.rglob("*") if path.suffix in {".css", ".js", ".svg", ".html"}]
    assert texts
    assert [path.name for path in texts if URL.search(path.read_text(encoding="utf-8"))] == []
    assert [path.name for path in texts if FETCH.search(path.read_text(encoding="utf-8"))] == []


def test_links_between_pages_lead_somewhere(parsed: dict[Path, _Parts]) -> None:
    broken = []
    for page, parts in parsed.items():
        for link in parts.links:
            target = urlsplit(link)
            if target.scheme or target.netloc:
                continue
            path = (page.parent / unquote(target.path)).resolve() if target.path else page
            ids = parsed[path].ids if path in parsed else set()
            if not path.exists() or (target.fragment and path in parsed and unquote(target.fragment) not in ids):
                broken.append(f"{page.name} -> {link}")
    assert broken == []


def test_the_search_needs_no_server(built: Path) -> None:
    index = (built / "searchindex.js").read_text(encoding="utf-8")
    assert index.startswith("Search.setIndex(")
    assert "lease" in index
    assert "searchindex.js" in (built / "search.html").read_text(encoding="utf-8")
    options = (built / "_static" / "documentation_options.js").read_text(encoding="utf-8")
    assert "SHOW_SEARCH_SUMMARY: true" in options


def test_pictures_stand_in_the_pages(built: Path) -> None:
    for page in ("concepts/sessions", "concepts/devices", "concepts/scheduling", "design/layers"):
        assert 'class="figure"' in (built / f"{page}.html").read_text(encoding="utf-8"), page


def test_every_picture_drawn_in_a_page_has_a_name_for_screen_readers(built: Path) -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in built.rglob("*.html")}
    pictures = [(name, one) for name, text in texts.items() for one in PICTURE.findall(text)]
    assert len(pictures) > 5
    assert [(name, one) for name, one in pictures if "aria-label=" not in one and "<title>" not in one] == []


def test_the_keyboard_reaches_what_scrolls_and_captions_have_a_level(built: Path) -> None:
    for path in built.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert "_static/scrolled.js" in text, path.name
        assert not re.search(r'role="heading"(?! aria-level="2")', text), path.name
