"""Deprecation: names that still work beside their successors, and the warning where one is used.

A deprecated name works for two minor releases; see the page `design/deprecation`.
"""

import warnings
from collections.abc import Callable

from msgspec import Struct


class DeprecatedName(FutureWarning):  # a category of `warnings`
    """A deprecated name was used. Python reports each text once per process."""


class Deprecation(Struct, frozen=True, kw_only=True):
    """A deprecated name of a public interface."""

    old: str
    """As the user writes it: `preemption.victims`."""
    new: str
    """The name, or the value, to use instead."""
    removed_in: str
    """The release that may remove the old name, like `0.3`: two minor releases after it was deprecated."""

    @property
    def reason(self) -> str:
        """For the schema's `@deprecated`."""
        return f"Use `{self.new}`. Release {self.removed_in} may remove this name."

    def warn(self, *, place: str = "") -> None:
        """Warn that the old name was used.

        Args:
            place: where it was used, like a file; names come from the user and are shown as they are.
        """
        where = f"{place}: " if place else ""
        text = f"{where}{self.old} is deprecated; use {self.new}. Release {self.removed_in} may remove {self.old}."
        warnings.warn(text, DeprecatedName, stacklevel=2)


def report_deprecated(report: Callable[[str], object]) -> None:
    """Send the texts of `DeprecatedName` warnings of this process to `report`, each once; other warnings as before."""
    others = warnings.showwarning
    seen: set[str] = set()

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: object = None,
        line: str | None = None,
    ) -> None:
        text = str(message)
        if not issubclass(category, DeprecatedName):
            others(message, category, filename, lineno, file, line)  # type: ignore[arg-type]  # handed on
        elif text not in seen:
            seen.add(text)
            report(text)

    warnings.showwarning = show
    warnings.simplefilter("always", DeprecatedName)
