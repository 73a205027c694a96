"""The patterns of a command check, matched in a process of their own: `re` may take for ever, and stops all threads."""

import json
import re
import sys
from collections.abc import Sequence


def refusal(text: str, *, allow: Sequence[str], deny: Sequence[str]) -> str | None:
    """Why the patterns refuse a command; None when they do not."""
    for pattern in deny:
        if re.search(pattern, text):
            return f"it is not taken here: commands must not match {pattern}"
    if allow and not any(re.search(pattern, text) for pattern in allow):
        return "it is not taken here: it matches none of the patterns of commands that are allowed"
    return None


if __name__ == "__main__":
    sys.exit(refusal(**json.load(sys.stdin)))
