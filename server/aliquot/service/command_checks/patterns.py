"""The patterns of a command check, matched in a process of their own: `re` may take for ever, and stops all threads."""

import json
import re
import sys
from collections.abc import Sequence


def refusal(texts: Sequence[str], *, allow: Sequence[str], deny: Sequence[str]) -> str | None:
    """The place of the first command that the patterns refuse, and why; None when they take all."""
    refused = ((place, _refusal(text, allow=allow, deny=deny)) for place, text in enumerate(texts))
    return next((f"{place} {words}" for place, words in refused if words is not None), None)


def _refusal(text: str, *, allow: Sequence[str], deny: Sequence[str]) -> str | None:
    for pattern in deny:
        if re.search(pattern, text):
            return f"it is not taken here: commands must not match {pattern}"
    if allow and not any(re.search(pattern, text) for pattern in allow):
        return "it is not taken here: it matches none of the patterns of commands that are allowed"
    return None


if __name__ == "__main__":
    sys.exit(refusal(**json.load(sys.stdin)))
