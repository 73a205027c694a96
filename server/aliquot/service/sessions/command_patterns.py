"""Command patterns: matched in a process of their own, because `re` may backtrack without end and holds the GIL."""

import json
import re
import sys
from collections.abc import Sequence


def refusal(texts: Sequence[str], *, allow: Sequence[str], deny: Sequence[str]) -> str | None:
    """Index of the first rejected command and the reason, `"<index> <reason>"`; None when all are accepted."""
    refused = ((position, _refusal(text, allow=allow, deny=deny)) for position, text in enumerate(texts))
    return next((f"{position} {reason}" for position, reason in refused if reason is not None), None)


def _refusal(text: str, *, allow: Sequence[str], deny: Sequence[str]) -> str | None:
    for pattern in deny:
        if re.search(pattern, text):
            return f"not accepted by this server: commands must not match {pattern}"
    if allow and not any(re.search(pattern, text) for pattern in allow):
        return "not accepted by this server: it matches none of the allowed command patterns"
    return None


if __name__ == "__main__":
    sys.exit(refusal(**json.load(sys.stdin)))
