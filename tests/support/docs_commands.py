"""Checks that `aliquot` commands of a page exist, with their options; for those that cannot be run here."""

import shlex
from collections.abc import Iterator
from typing import Any

from aliquot.cli import all_commands

DATABASE_TOOLS = frozenset({"createdb", "createuser", "dropdb"})
"""Programs whose argument may be a database or a role called aliquot."""


def unknown_words(text: str) -> list[str]:
    """Unknown commands and options in the `aliquot` commands of a shell block."""
    return [word for words in _commands(text) for word in _unknown(words)]


def _commands(text: str) -> Iterator[list[str]]:
    """The words after each `aliquot`, up to its command's end."""
    for line in text.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line.removeprefix("ExecStart="), comments=True)
        except ValueError:
            continue
        if words and words[0] in DATABASE_TOOLS:
            continue
        for place, word in enumerate(words):
            if word.rsplit("/", 1)[-1] == "aliquot" and place <= 2:
                yield words[place + 1 :]


def _unknown(words: list[str]) -> Iterator[str]:
    command: Any = all_commands()
    while words and hasattr(command, "commands") and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        yield words[0]
        return
    known = {"--help", *(option for one in command.params for option in (*one.opts, *one.secondary_opts))}
    for word in words:
        if word in {"--", "|", ">", "&&", ";"}:
            return
        if word.startswith("-") and word.partition("=")[0] not in known and word[:2] not in known:
            yield word
