"""The command line run in its own process, with or without a terminal."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Self

from aliquot.cli.acceptance.processes import OwnServer

PATIENCE_S = 120


class CommandResult(NamedTuple):
    """A command result."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class CliUser:
    """A command-line user with a home folder."""

    def __init__(self, *, url: str, token: str, home: Path) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ALIQUOT_", "XDG_"))}
        self.environment = {**kept, "ALIQUOT_SERVER": url, "ALIQUOT_TOKEN": token, "HOME": str(home), "TERM": "xterm"}
        self.home = home

    @classmethod
    def at(cls, server: OwnServer, *, home: Path) -> Self:
        return cls(url=server.url, token=server.token, home=home)

    def run(self, *words: str, code: int = 0) -> CommandResult:
        """Run a command to its end, expecting this code."""
        done = subprocess.run(
            self._argv(words),
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def interrupt(self, *words: str, after: str, answer: str | None) -> CommandResult:
        """Run a command, press Ctrl-C after its first line, and answer its question.

        Args:
            answer: without one, there is no terminal.
        """
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            self._argv(words),
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL if answer is None else theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if answer is None else theirs,
            text=True,
        )
        os.close(theirs)
        try:
            assert process.stdout is not None
            seen = process.stdout.readline()
            assert seen == f"{after}\n", seen
            process.send_signal(signal.SIGINT)
            asked = "" if answer is None else _answered(ours, answer)
            # Buffered output is in these files only; `communicate` would miss it.
            out = process.stdout.read()
            err = asked if process.stderr is None else process.stderr.read()
            return CommandResult(process.wait(PATIENCE_S), seen + out, err)
        finally:
            process.kill()
            process.communicate()
            os.close(ours)

    @staticmethod
    def _argv(words: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "aliquot", *words]


def _answered(terminal: int, answer: str) -> str:
    """Read up to the question, and answer it."""
    text = ""
    while "b, c or f" not in text:
        ready, _, _ = select.select([terminal], [], [], PATIENCE_S)
        assert ready, f"it asked nothing: {text!r}"
        text += os.read(terminal, 4096).decode()
    os.write(terminal, f"{answer}\n".encode())
    return text
