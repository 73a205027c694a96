"""A fake systemd: process 1 of a node made of namespaces. It runs services by their unit files.

    python systemd_stand_in.py init              process 1; it also collects orphans, as process 1 does
    python systemd_stand_in.py systemctl ARGS    what the node's `systemctl` runs
    python systemd_stand_in.py journalctl -u UNIT

It supports what Aliquot's units use: ExecStart, Environment, EnvironmentFile, StateDirectory, StateDirectoryMode,
Restart=always, RestartSec and KillMode=process. systemd itself checks the files (`systemd-analyze verify`).
"""

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from string import Template
from typing import Final

ADDRESS: Final = "\0aliquot-systemd-stand-in"
"""An abstract socket: each network namespace has its own."""
UNITS: Final = Path("/etc/systemd/system")
LOGS: Final = Path("/var/lib/journal")
STOP_S_MAX: Final = 30.0
TURN_S: Final = 0.05


class Unit:
    """One service: its file, its wanted state, and its main process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_wanted = False
        self.pid: int | None = None
        self._at = 0.0

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    def start(self) -> None:
        """Start the main process."""
        lines = self._lines()
        environment = {"PATH": os.environ["PATH"], "HOME": "/root"}
        for file in lines.get("EnvironmentFile", ()):
            environment |= _pairs(Path(file).read_text(encoding="utf-8").splitlines())
        environment |= _pairs(lines.get("Environment", ()))
        for folder in lines.get("StateDirectory", ()):
            state = Path("/var/lib", folder)
            state.mkdir(parents=True, exist_ok=True)
            state.chmod(int(lines.get("StateDirectoryMode", ["0755"])[-1], 8))
            environment["STATE_DIRECTORY"] = str(state)
        words = [
            part
            for word in shlex.split(lines["ExecStart"][-1])
            for part in (shlex.split(Template(word).safe_substitute(environment)) if word.startswith("$") else [word])
        ]
        LOGS.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                words,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        self.pid = process.pid
        process.returncode = 0  # process 1 reaps it

    def turn(self, ended: int | None) -> None:
        """Note that a process ended, and restart wanted services after RestartSec."""
        if ended is not None and ended == self.pid:
            self.pid = None
            self._at = time.monotonic() + float(self._lines().get("RestartSec", ["0.1"])[-1])
        if self.is_wanted and self.pid is None and time.monotonic() >= self._at:
            self.start()

    def kill(self, number: int) -> None:
        """Send the main process a signal; its children stay (KillMode=process)."""
        if self.pid is not None:
            os.kill(self.pid, number)

    def _lines(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in (UNITS / self.name).read_text(encoding="utf-8").splitlines():
            name, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                found.setdefault(name, []).append(value)
        assert found["KillMode"] == ["process"], "the stand-in knows no other"
        return found


def _pairs(lines: object) -> dict[str, str]:
    return {name: value for name, _, value in (str(line).partition("=") for line in lines)}  # type: ignore[attr-defined]


class Init:
    """Process 1."""

    def __init__(self) -> None:
        self._units: dict[str, Unit] = {}

    def run(self) -> None:
        """Serve commands and reap processes forever."""
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(ADDRESS)
        listening.listen()
        listening.settimeout(TURN_S)
        while True:
            self._collect()
            with contextlib.suppress(TimeoutError):
                asking, _ = listening.accept()
                with asking:
                    answer = self._answer(json.loads(asking.recv(65536)))
                    asking.sendall(json.dumps(answer).encode())

    def _collect(self) -> None:
        ended: int | None = None
        while True:
            try:
                ended, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                ended = 0
            for unit in self._units.values():
                unit.turn(ended or None)
            if not ended:
                return

    def _answer(self, words: list[str]) -> tuple[int, str]:
        verb = next(word for word in words if not word.startswith("-"))
        names = [word for word in words[words.index(verb) + 1 :] if not word.startswith("-")]
        units = [self._unit(name) for name in names if name != "SIGKILL"]
        if verb in ("stop", "restart"):
            for unit in units:
                self._stop(unit)
        if verb in ("start", "restart") or (verb == "enable" and "--now" in words):
            for unit in units:
                unit.is_wanted = True
                unit.turn(None)
        if verb == "kill":
            for unit in units:
                unit.kill(signal.SIGKILL)
        if verb == "is-active":
            states = ["active" if unit.pid is not None else "inactive" for unit in units]
            return int("inactive" in states), "".join(f"{state}\n" for state in states)
        return 0, ""

    def _stop(self, unit: Unit) -> None:
        unit.is_wanted = False
        unit.kill(signal.SIGTERM)
        end = time.monotonic() + STOP_S_MAX
        while unit.pid is not None:
            if time.monotonic() > end:
                unit.kill(signal.SIGKILL)
            time.sleep(TURN_S)
            self._collect()

    def _unit(self, name: str) -> Unit:
        name = name if "." in name else f"{name}.service"
        return self._units.setdefault(name, Unit(name))


def main(role: str, *words: str) -> int:
    """Run the given role."""
    if role == "init":
        Init().run()
    if role == "journalctl":
        print((LOGS / f"{words[-1]}.service.log").read_text(encoding="utf-8"), end="")
        return 0
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(ADDRESS)
        asking.sendall(json.dumps(words).encode())
        asking.shutdown(socket.SHUT_WR)
        code, text = json.loads(b"".join(iter(lambda: asking.recv(65536), b"")))
    print(text, end="")
    return int(code)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
