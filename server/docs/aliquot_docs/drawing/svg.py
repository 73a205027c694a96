"""SVG elements in the colours of the page, readable in light and dark mode."""

from html import escape
from typing import Final

INK: Final = "var(--color-foreground-primary)"
FAINT: Final = "var(--color-foreground-muted)"
PAPER: Final = "var(--color-background-secondary)"
EDGE: Final = "var(--color-background-border)"
BLUE, ORANGE, GREEN, PURPLE = "#3b8fd0", "#e08a1e", "#17a077", "#b7659a"
"""Distinguishable with any colour vision, with enough contrast on white and on black. After Okabe and Ito."""
PALETTE: Final = (BLUE, ORANGE, GREEN, PURPLE)


def picture(body: str, *, width: int, height: int, title: str) -> str:
    """A picture of a given size, scaled to the width of the page."""
    return (
        f'<div class="figure-frame"><svg class="figure" role="img" xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {width} {height}" style="max-width:{width}px;min-width:{min(width, 560)}px">'
        f"<title>{escape(title)}</title>{body}</svg></div>\n"
    )


def label(words: str, x: float, y: float, *, size: int = 14, color: str = INK, anchor: str = "middle") -> str:
    """Text; `y` is its baseline."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{color}" '
        f'font-family="sans-serif">{escape(words)}</text>'
    )


def box(
    x: float, y: float, width: float, height: float, *, fill: str = PAPER, stroke: str = INK, dash: str = ""
) -> str:
    """A rectangle with rounded corners."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="1.5"{dashed}/>'
    )


def arc(x_from: float, x_to: float, y: float, *, height: float, color: str, dash: str = "") -> str:
    """An arrow from one point of a horizontal line to another, above it; below it for a negative height."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    tip = 7 if height > 0 else -7
    head = f"M{x_to - 4:g} {y - tip:g}L{x_to:g} {y:g}L{x_to + 4:g} {y - tip:g}"
    path = f"M{x_from:g} {y:g}C{x_from:g} {y - height:g} {x_to:g} {y - height:g} {x_to:g} {y:g}"
    return (
        f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.8"{dashed}/>'
        f'<path d="{head}" fill="none" stroke="{color}" stroke-width="1.8"/>'
    )
