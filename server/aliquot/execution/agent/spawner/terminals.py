"""Terminals: shells beside the job of one kernel, with its account, cgroups, sandbox, environment and limits.

The kernel's shim runs `python -I -S -E terminals.py PID` with the marshalled order on stdin; PID is the process that it
forked. The program owns the terminals, so they outlive connections, the agent and the server. It listens on
`SOCKET` in the kernel's folder and ends when it has had nothing to do for `IDLE_S`, or with the kernel.

A connection is a stream of frames: kind (1 byte), length (4 bytes, big endian), content of at most `FRAME_BYTES_MAX`.

    to it    O  first: JSON, see `Terminals._open`    r  rows, columns (2 bytes each)    i  input    e  end of the input
    from it  a  JSON, attached: `offset` of the next output byte, bytes of `input` received, `recorded`, `viewers`
             o, s  output, and standard error without a terminal    k  bytes of input received (8 bytes)
             x  JSON, the end: `code`    f  JSON, refused: `message`

A lost connection loses nothing: the next one names the terminal and the number of output bytes that it has, and sends
the input again from the number in `a`. Input is counted for each `viewer`, so that it names itself again too; clients
of earlier versions do not, and are counted together.
"""

import json
import marshal
import os
import select
import signal
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from libc import prctl  # type: ignore[import-not-found] # siblings, which -I does not find by itself
from order import Order  # type: ignore[import-not-found]
from terminal import BEHIND_BYTES_MAX, Recording, Terminal, Viewer  # type: ignore[import-not-found]

SOCKET = "terminals.sock"
STALLED_S = 10
"""A viewer that takes nothing for this long is disconnected if there are others."""
TERMINALS_MAX = 16
VIEWERS_MAX = 8
IDLE_S = 30
ENDED_KEPT_S = 60
"""Time that the end of a terminal is kept for connections that come back."""
_NO_SHELL = (b"nologin", b"false", b"")
_PR_SET_PDEATHSIG = 1


class Terminals:
    """The terminals of one kernel, and the loop that serves them."""

    def __init__(self, order: Order, main: int) -> None:
        self._order = order
        self._main = main
        self._terminals: dict[str, Terminal] = {}
        self._viewers: list[Viewer] = []
        self._listener = _listen()
        self._busy_at = time.monotonic()

    def run(self) -> None:
        """Serve until there is nothing to do."""
        while self._terminals or self._viewers or time.monotonic() - self._busy_at < IDLE_S:
            self._serve(self._wait())
            self._tidy()
        os.unlink(SOCKET)

    def _wait(self) -> dict[int, int]:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        for viewer in self._viewers:
            stuck = viewer.terminal is not None and viewer.terminal.is_full
            poll.register(viewer.connection, (0 if stuck else select.POLLIN) | (select.POLLOUT if viewer.behind else 0))
        for terminal in self._terminals.values():
            masks: dict[int, int] = {}
            if terminal.may_read():
                masks = dict.fromkeys(terminal.outputs, select.POLLIN)
            if terminal.feeding is not None:
                masks[terminal.feeding] = masks.get(terminal.feeding, 0) | select.POLLOUT
            if terminal.process >= 0:
                masks[terminal.process] = select.POLLIN
            for file, mask in masks.items():
                poll.register(file, mask)
        return dict(poll.poll(1000))

    def _serve(self, ready: dict[int, int]) -> None:
        if self._listener.fileno() in ready:
            self._accept()
        for terminal in self._terminals.values():
            if terminal.process in ready:
                terminal.reap()
            if terminal.feeding in ready:
                terminal.feed()
            is_due = terminal.may_read() and terminal.code is not None
            for file in [file for file in terminal.outputs if file in ready or is_due]:
                terminal.read(file)
            terminal.conclude()
        for viewer in list(self._viewers):
            mask = ready.get(viewer.connection.fileno(), 0)
            if mask and not self._on_event(viewer, mask):
                self._disconnect(viewer)

    def _on_event(self, viewer: Viewer, mask: int) -> bool:
        """Exchange data with a viewer; False when the connection is over."""
        if mask & select.POLLIN:
            frames = viewer.receive()
            if frames is None:
                return False
            for kind, content in frames:
                if viewer.terminal is not None and not viewer.is_read_only:
                    viewer.terminal.take(viewer, kind, content)
                    viewer.terminal.feed()
                elif kind == b"O" and viewer.terminal is None and not viewer.leaves:
                    self._open(viewer, json.loads(content))
        elif mask & (select.POLLHUP | select.POLLERR):
            return False
        return viewer.flush() if viewer.behind or viewer.leaves else True

    def _open(self, viewer: Viewer, asked: dict[str, object]) -> None:
        """Attach to a terminal, which is started unless it is known or `offset` says that it should be.

        Fields: `name`, `tty`, `rows`, `columns`, `term`, `command` (empty = the shell), `offset` (null = a new
        connection), `viewer`, `grace_s`, `read_only`, `record`.
        """
        name = str(asked["name"])
        terminal = self._terminals.get(name)
        if terminal is None:
            if asked["offset"] is not None:
                viewer.refuse("the terminal is gone: it ended, or was not connected for too long")
                return
            ended = [known for known, one in self._terminals.items() if one.is_over and not one.viewers]
            if len(self._terminals) >= TERMINALS_MAX and ended:
                del self._terminals[ended[0]]
            if len(self._terminals) >= TERMINALS_MAX:
                viewer.refuse(f"the session has {TERMINALS_MAX} open terminals, which is the limit; close one")
                return
            try:
                terminal = self._terminals[name] = self._start(name, asked)
            except OSError as error:  # the disk is full, or there are too many processes
                viewer.refuse(f"the terminal cannot be opened: {error.strerror}")
                return
        if len(terminal.viewers) >= VIEWERS_MAX:
            viewer.refuse(f"the terminal has {VIEWERS_MAX} viewers, which is the limit")
            return
        viewer.is_read_only = bool(asked.get("read_only"))
        viewer.name = str(asked.get("viewer", ""))
        terminal.attach(viewer, None if asked["offset"] is None else int(str(asked["offset"])))
        if terminal.is_tty and not terminal.is_over and not viewer.is_read_only:
            terminal.resize(int(str(asked["rows"])), int(str(asked["columns"])))

    def _start(self, name: str, asked: dict[str, object]) -> Terminal:
        size = int(str(asked["rows"])), int(str(asked["columns"]))
        is_tty = bool(asked["tty"])
        record = Recording(name, size) if asked["record"] and is_tty else None
        terminal = Terminal(is_tty=is_tty, grace_s=float(str(asked["grace_s"])), record=record)
        environment = dict(self._order.environment)
        if is_tty:
            environment[b"TERM"] = os.fsencode(str(asked["term"]))
        command = asked["command"]
        argv = [os.fsencode(str(word)) for word in command] if isinstance(command, list) and command else None
        terminal.start(self._order, self._main, argv or [_shell(environment)], environment)
        return terminal

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid not in (0, os.geteuid()) or len(self._viewers) >= TERMINALS_MAX * VIEWERS_MAX:
            connection.close()
            return
        connection.setblocking(False)
        self._viewers.append(Viewer(connection))

    def _disconnect(self, viewer: Viewer) -> None:
        self._viewers.remove(viewer)
        if viewer.terminal is not None:
            viewer.terminal.detach(viewer)
        viewer.connection.close()

    def _tidy(self) -> None:
        """Disconnect viewers that stalled, end terminals that were left, and forget those that ended."""
        now = time.monotonic()
        for viewer in list(self._viewers):
            others = 0 if viewer.terminal is None else len(viewer.terminal.viewers) - 1
            if len(viewer.behind) >= BEHIND_BYTES_MAX and others and now - viewer.took_at > STALLED_S:
                self._disconnect(viewer)
        for name, terminal in list(self._terminals.items()):
            is_left = not terminal.viewers and now - terminal.unseen_since > terminal.grace_s
            if is_left and terminal.code is None:
                terminal.hang_up()
            elif is_left and not terminal.is_over:
                terminal.abandon()
            elif terminal.is_over and not terminal.viewers and now - terminal.unseen_since > ENDED_KEPT_S:
                del self._terminals[name]
        if self._terminals or self._viewers:
            self._busy_at = now


def _listen() -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    if os.path.exists(SOCKET):
        os.unlink(SOCKET)
    listener.bind(SOCKET)
    listener.listen(16)
    listener.setblocking(False)
    return listener


def _shell(environment: dict[bytes, bytes]) -> bytes:
    shell = environment.get(b"SHELL", b"")
    if os.path.basename(shell) not in _NO_SHELL and os.access(shell, os.X_OK):
        return shell
    return b"/bin/bash" if os.access("/bin/bash", os.X_OK) else b"/bin/sh"


def main() -> None:
    """Read the order, and serve terminals."""
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    with open(0, "rb", closefd=False) as text:
        order = Order(marshal.load(text))
    os.dup2(os.open("/dev/null", os.O_RDWR), 0, inheritable=False)
    os.umask(0o077)
    os.chdir(order.folder)
    Terminals(order, int(sys.argv[1])).run()


main()
