"""The README's examples, and how a shown result is compared with a real one."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

README: Final = Path(__file__).resolve().parents[2] / "README.md"
FENCE: Final = re.compile(r"^```(\w+)[ \t]*([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELLIPSIS: Final = "..."


@dataclass(slots=True, kw_only=True)
class Example:
    """Something to run, with its variables and the result that is shown for it."""

    language: str
    text: str
    label: str = ""
    """A file's name: it is what the file says, or is asked of a server that was started with it."""
    variables: dict[str, Any] = field(default_factory=dict)
    shown: Any = None


def examples() -> Iterator[Example]:
    """Every block of the README that is run, in order."""
    current: Example | None = None
    for language, label, text in FENCE.findall(README.read_text(encoding="utf-8")):
        if language in {"graphql", "bash", "toml", "yaml"}:
            if current:
                yield current
            current = Example(language=language, text=text, label=label.strip())
        elif language == "json" and label == "variables":
            assert current
            current.variables = json.loads(text)
        elif language == "json":
            assert current
            assert current.shown is None, f"two results for {current.text}"
            current.shown = json.loads(text)
    if current:
        yield current


def matches(shown: Any, real: Any) -> bool:
    """Whether a result is what is shown.

    `...` at the end of a text stands for anything; text that is a JSON object is compared as one.
    """
    if isinstance(shown, dict) and isinstance(real, dict):
        return shown.keys() == real.keys() and all(matches(shown[key], real[key]) for key in shown)
    if isinstance(shown, list) and isinstance(real, list):
        return len(shown) == len(real) and all(map(matches, shown, real))
    if isinstance(shown, str) and isinstance(real, str):
        if shown.endswith(ELLIPSIS):
            return real.startswith(shown.removesuffix(ELLIPSIS))
        if shown.startswith("{"):
            return bool(json.loads(shown) == json.loads(real))
    return bool(shown == real)
