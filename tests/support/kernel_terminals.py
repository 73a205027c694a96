"""The terminal program of a kernel, without agent and server, and clients that speak its protocol."""

import json
import marshal
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import aliquot.execution.agent.spawner
from aliquot_schema.cluster.streams import FRAME_HEAD

WAIT_S_MAX: Final = 30.0
PROGRAM: Final = Path(aliquot.execution.agent.spawner.__file__).with_name("terminals.py")


class TerminalViewer:
    """One connection to a terminal."""

    def __init__(self, folder: Path, name: str, **asked: Any) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT_S_MAX)
        self._socket.connect(str(folder / "terminals.sock"))
        self._received = b""
        common = {"tty": False, "rows": 24, "columns": 80, "term": "dumb", "offset": None, "record": False}
        self.send(b"O", json.dumps({**common, "name": name, "grace_s": 600.0, **asked}).encode())

    def send(self, kind: bytes, content: bytes) -> None:
        self._socket.sendall(FRAME_HEAD.pack(kind, len(content)) + content)

    def until(self, wanted: bytes) -> bytes:
        """Wait for a frame of a kind; its content."""
        while True:
            kind, content = self.frame()
            if kind == wanted:
                return content

    def frame(self) -> tuple[bytes, bytes]:
        """Wait for the next frame."""
        kind, length = FRAME_HEAD.unpack(self._take(FRAME_HEAD.size))
        return kind, self._take(length)

    def close(self) -> None:
        self._socket.close()

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            data = self._socket.recv(65_536)
            if not data:
                raise EOFError
            self._received += data
        taken, self._received = self._received[:count], self._received[count:]
        return taken


Open = Callable[..., TerminalViewer]


@contextmanager
def kernel_terminals(*, file_bytes_max: int = resource.RLIM_INFINITY) -> Iterator[Open]:
    """Start the program; opens viewers, which are closed at the end.

    Args:
        file_bytes_max: what the program can write to one file.
    """
    folder = Path(tempfile.mkdtemp(prefix="aliquot-terminals-"))
    fields = {
        "folder": str(folder),
        "environment": {b"PATH": b"/usr/bin:/bin"},
        "working_directory": os.fsencode(folder),
        "user": None,
        "limits": [],
        "group": None,
        "limit_groups": [],
        "sandbox": None,
    }
    order = folder / "order"
    order.write_bytes(marshal.dumps(fields, 2))
    with open(order, "rb") as given:
        program = subprocess.Popen([sys.executable, "-I", "-S", "-E", PROGRAM, str(os.getpid())], stdin=given)
    try:
        give_up = time.monotonic() + WAIT_S_MAX
        while not (folder / "terminals.sock").exists():
            assert time.monotonic() < give_up
            assert program.poll() is None
            time.sleep(0.01)
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))
        with ExitStack() as viewers:
            yield lambda name, **asked: viewers.enter_context(closing(TerminalViewer(folder, name, **asked)))
    finally:
        program.kill()
        program.wait()
        shutil.rmtree(folder)
