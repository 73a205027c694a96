"""Programs: what tells a command from its owner's others, for predictions."""

import re
from collections.abc import Sequence
from typing import Final

NAME_CHARS_MAX: Final = 64
SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
INTERPRETERS: Final = re.compile(r"(python|pypy|perl|ruby|node|julia|Rscript|php)[0-9.]*")
PREFIXES: Final = frozenset({"env", "exec", "nice", "nohup", "time", "uv", "run"})
"""Words that stand before a command without being it."""
ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*=.*", re.DOTALL)


def program_of(argv: Sequence[str]) -> str | None:
    """The base name of the program; of an interpreter's script or module; of the first command of `sh -c`.

    None when nothing is left of the command to go by.
    """
    words = list(argv)
    while words and (words[0] in PREFIXES or ASSIGNMENT.fullmatch(words[0])):
        del words[0]
    if not words:
        return None
    name = _name(words[0])
    if name in SHELLS:
        return _of_shell(words) or name
    if INTERPRETERS.fullmatch(name):
        return _of_interpreter(words) or name
    return name or None


def _of_shell(words: Sequence[str]) -> str | None:
    """A shell's options may be joined: `-lc`."""
    for place, word in enumerate(words[1:], start=1):
        if not word.startswith("-"):
            return _name(word)
        if not word.startswith("--") and word.endswith("c"):
            return program_of(words[place + 1].split()) if place + 1 < len(words) else None
    return None


def _of_interpreter(words: Sequence[str]) -> str | None:
    for place, word in enumerate(words[1:], start=1):
        if word == "-m" and place + 1 < len(words):
            return words[place + 1][:NAME_CHARS_MAX]
        if word in ("-c", "-e", "-m", "-"):
            return None
        if not word.startswith("-"):
            return _name(word)
    return None


def _name(word: str) -> str:
    return word.strip("'\";&|()").rstrip("/").rpartition("/")[2][:NAME_CHARS_MAX]
