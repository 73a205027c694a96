"""Markup: HTML that is put together so that text from outside can only ever be text."""

from html import escape


class Html(str):
    """Markup that is safe to put into a page. Everything else is text, and is escaped."""

    __slots__ = ()


Content = Html | str | int


def element(name: str, *content: Content, kind: str | None = None) -> Html:
    """One element with its content; `kind` is its class."""
    attribute = f' class="{escape(kind)}"' if kind else ""
    return Html(f"<{name}{attribute}>{joined(*content)}</{name}>")


def joined(*content: Content) -> Html:
    """Several pieces, one after the other."""
    return Html("".join(piece if isinstance(piece, Html) else escape(str(piece)) for piece in content))


def meter(value: str, *, most: str) -> Html:
    """A bar of one amount out of another; both are decimal numbers."""
    return Html(f'<meter value="{escape(value)}" max="{escape(most)}">{escape(value)}</meter>')


def document(title: str, *content: Content) -> str:
    """A whole page."""
    head = joined(
        Html('<meta charset="utf-8"><meta name="viewport" content="width=device-width">'),
        Html('<link rel="stylesheet" href="/page.css">'),
        element("title", title),
    )
    return f'<!doctype html><html lang="en">{element("head", head)}{element("body", *content)}</html>'


def table(heads: tuple[str, ...], rows: list[tuple[Content, ...]]) -> Html:
    """A table, which scrolls where it is too wide; a cell that begins with a digit is an amount."""
    head = element("tr", *(element("th", text) for text in heads))
    body = [element("tr", *(element("td", cell, kind=_kind(cell)) for cell in row)) for row in rows]
    return element("div", element("table", element("thead", head), element("tbody", *body)), kind="scroll")


def _kind(cell: Content) -> str | None:
    return "amount" if str(cell)[:1].isdigit() else None
