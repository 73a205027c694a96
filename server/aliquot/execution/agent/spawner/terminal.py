"""Terminal: one shell or command with its process, newest output, viewers and recording. See `terminals`."""

import fcntl
import json
import os
import signal
import socket
import struct
import termios
import time

from child import (  # type: ignore[import-not-found] # siblings: `terminals` is run as a program
    NOT_FOUND,
    NOT_RUNNABLE,
    enter_working_directory,
    execute,
    job_of,
    join_groups,
    set_limits,
    switch_account,
    words,
)
from libc import prctl, setns  # type: ignore[import-not-found]
from order import Order  # type: ignore[import-not-found]

# ruff: noqa: SIM105 -- importing contextlib would start each program later

FRAME_BYTES_MAX = 65_536
RING_BYTES = 1 << 20
"""Output kept for connections that come back."""
BEHIND_BYTES_MAX = 262_144
"""Output that waits for one viewer. Above it, the program behind the terminal waits too."""
INPUT_BYTES_MAX = 262_144
COUNTS_MAX = 64
"""Viewers whose input is counted, including those that left and may come back."""
KILL_AFTER_S = 3
RECORD_BYTES_MAX = 64 << 20
_NAMESPACES = 0x10000000 | 0x20000 | 0x20000000 | 0x08000000
"""CLONE_NEWUSER, _NEWNS, _NEWPID and _NEWIPC of <sched.h>: those that the sandbox makes, see `isolation.sandbox`."""
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_CAPABILITIES = 64
_HEAD = struct.Struct(">cI")


class Viewer:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.terminal: Terminal | None = None
        self.name = ""
        """Given by the client and kept over its connections; clients of earlier versions have none."""
        self.behind = bytearray()
        self.took_at = time.monotonic()
        self.is_read_only = False
        self.leaves = False
        """Disconnect when everything is sent."""
        self._received = bytearray()

    def send(self, kind: bytes, content: bytes) -> None:
        """Queue a frame."""
        if not self.behind:
            self.took_at = time.monotonic()
        self.behind += _HEAD.pack(kind, len(content)) + content

    def refuse(self, message: str) -> None:
        """Say why there is no terminal, and disconnect."""
        self.send(b"f", json.dumps({"message": message}).encode())
        self.leaves = True

    def flush(self) -> bool:
        """Send what the connection takes now; False when it is over."""
        try:
            sent = self.connection.send(self.behind)
        except BlockingIOError:
            return True
        except OSError:
            return False
        del self.behind[:sent]
        self.took_at = time.monotonic()
        return bool(self.behind) or not self.leaves

    def receive(self) -> list[tuple[bytes, bytes]] | None:
        """The frames that have arrived completely; None when the connection is over, or breaks the protocol."""
        try:
            data = self.connection.recv(FRAME_BYTES_MAX)
        except BlockingIOError:
            return []
        except OSError:
            return None
        self._received += data
        found = []
        while len(self._received) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._received)
            if length > FRAME_BYTES_MAX:
                return None
            if len(self._received) < _HEAD.size + length:
                break
            found.append((kind, bytes(self._received[_HEAD.size : _HEAD.size + length])))
            del self._received[: _HEAD.size + length]
        return found if data else None


class Terminal:
    """One shell or command: its process, its file descriptors, and its newest output."""

    def __init__(self, *, is_tty: bool, grace_s: float, record: "Recording | None") -> None:
        self.is_tty = is_tty
        self.grace_s = grace_s
        self.viewers: list[Viewer] = []
        self.outputs: dict[int, bytes] = {}
        """File descriptor -> kind of frame."""
        self.process = -1
        """Pidfd."""
        self.code: int | None = None
        self.is_over = False
        """Everything was read, and the code was sent; later viewers get it too."""
        self.record = record
        self.unseen_since = time.monotonic()
        self._pid = -1
        self._input: int | None = None
        self._waiting = bytearray()
        self._input_ends = False
        self._counts: dict[str, int] = {}
        """Bytes of input received, by name of the viewer."""
        self._ring: list[tuple[bytes, bytes]] = []
        self._ring_bytes = 0
        self._offset = 0

    def start(self, order: Order, main: int, argv: list[bytes], environment: dict[bytes, bytes]) -> None:
        """Fork the process."""
        files: list[int] = []
        try:
            for make in (os.openpty,) if self.is_tty else (os.pipe, os.pipe, os.pipe):
                files += make()
            if self.is_tty:
                master, slave = files
                inner, outer = [slave, slave, slave], [master]
                self._input, self.outputs = master, {master: b"o"}
            else:
                read, feed, out, write, errors, complain = files
                inner, outer = [read, write, complain], [feed, out, errors]
                self._input, self.outputs = feed, {out: b"o", errors: b"s"}
            self._pid = os.fork()
            if self._pid == 0:
                _become(order, main, argv, environment, inner, is_tty=self.is_tty)
            self.process = os.pidfd_open(self._pid)
        except OSError:
            self._undo(files)
            raise
        for file in set(inner):
            os.close(file)
        for file in outer:
            os.set_blocking(file, False)

    def _undo(self, files: list[int]) -> None:
        """Leave nothing of a start that failed."""
        if self._pid > 0:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        for file in files:
            os.close(file)
        if self.record is not None:
            self.record.discard()

    def attach(self, viewer: Viewer, offset: int | None) -> None:
        """Send what the viewer misses, and everything from now on."""
        first = self._offset - self._ring_bytes
        begin = first if offset is None or not first <= offset <= self._offset else offset
        viewer.terminal = self
        self.viewers.append(viewer)
        self._count(viewer, 0)
        facts = {
            "offset": begin,
            "input": self._counts[viewer.name],
            "recorded": self.record is not None,
            "viewers": len(self.viewers),
        }
        viewer.send(b"a", json.dumps(facts).encode())
        at = first
        for kind, data in self._ring:
            if at + len(data) > begin:
                viewer.send(kind, data[max(0, begin - at) :])
            at += len(data)
        if self.is_over:
            self._finish(viewer)

    def detach(self, viewer: Viewer) -> None:
        """Forget a viewer."""
        self.viewers.remove(viewer)
        self.unseen_since = time.monotonic()

    def take(self, viewer: Viewer, kind: bytes, content: bytes) -> None:
        """Handle a frame of a viewer."""
        if kind == b"i" and not self._input_ends and self._input is not None:
            self._waiting += content
            self._count(viewer, len(content))
        elif kind == b"e" and not self.is_tty:  # others may type in a shared terminal when one window was closed
            self._input_ends = True
            self.feed()
        elif kind == b"r" and len(content) == 4 and self.is_tty and not self.is_over:
            self.resize(*struct.unpack(">HH", content))

    def resize(self, rows: int, columns: int) -> None:
        """Set the size, and have a full-screen program draw again even if it is unchanged."""
        master = next(iter(self.outputs), None)
        if master is None:
            return
        termios.tcsetwinsize(master, (rows, columns))
        try:
            os.killpg(os.tcgetpgrp(master), signal.SIGWINCH)
        except OSError:
            pass
        if self.record is not None:
            self.record.write("r", f"{columns}x{rows}")

    @property
    def feeding(self) -> int | None:
        """The descriptor that input waits for; None = none waits."""
        return self._input if self._waiting else None

    @property
    def is_full(self) -> bool:
        """Whether input has to wait."""
        return len(self._waiting) > INPUT_BYTES_MAX

    def feed(self) -> None:
        """Write input that waits, as much as is taken now."""
        if self._input is None:
            return
        try:
            while self._waiting:
                del self._waiting[: os.write(self._input, self._waiting[:FRAME_BYTES_MAX])]
        except BlockingIOError:
            return
        except OSError:
            self._waiting.clear()
        for viewer in self.viewers:
            viewer.send(b"k", self._counts[viewer.name].to_bytes(8, "big"))
        if self._input_ends and not self.is_tty:
            os.close(self._input)
            self._input = None

    def may_read(self) -> bool:
        """Whether every viewer follows; without one, whether output may be dropped."""
        if not self.viewers:
            return self.is_tty or self._ring_bytes < RING_BYTES
        return all(len(viewer.behind) < BEHIND_BYTES_MAX for viewer in self.viewers)

    def read(self, file: int) -> None:
        """Read once and send it to every viewer."""
        kind = self.outputs[file]
        try:
            data = os.read(file, FRAME_BYTES_MAX)
        except BlockingIOError:
            if self.code is not None:  # what the process wrote was read; others may keep the descriptor open
                self._drop(file)
            return
        except OSError:  # a terminal without a process
            data = b""
        if not data:
            self._drop(file)
            return
        self._offset += len(data)
        self._ring.append((kind, data))
        self._ring_bytes += len(data)
        while self._ring_bytes - len(self._ring[0][1]) >= RING_BYTES:
            self._ring_bytes -= len(self._ring.pop(0)[1])
        if self.record is not None:
            self.record.write("o", data.decode(errors="replace"))
        for viewer in self.viewers:
            viewer.send(kind, data)

    def reap(self) -> None:
        """The process has ended: read what is left, then report its code."""
        _, status = os.waitpid(self._pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        self.code = 128 - self.code if self.code < 0 else self.code
        os.close(self.process)
        self.process = -1

    def conclude(self) -> None:
        """Report the code once everything is read."""
        if self.code is None or self.outputs or self.is_over:
            return
        self.is_over = True
        if self._input is not None and not self.is_tty:
            os.close(self._input)
        self._input = None
        for viewer in self.viewers:
            self._finish(viewer)
        if self.record is not None:
            self.record.close()

    def abandon(self) -> None:
        """Drop the output of an ended process when no viewer has come back, so that the terminal can end."""
        for file in list(self.outputs):
            self._drop(file)
        self.conclude()

    def hang_up(self) -> None:
        """End the process as a lost line does, or kill it."""
        is_late = time.monotonic() - self.unseen_since > self.grace_s + KILL_AFTER_S
        try:
            signal.pidfd_send_signal(self.process, signal.SIGKILL if is_late else signal.SIGHUP)
        except OSError:
            pass

    def _count(self, viewer: Viewer, bytes_more: int) -> None:
        """Count input of a viewer; the counts of viewers that left longest ago are forgotten."""
        self._counts[viewer.name] = self._counts.pop(viewer.name, 0) + bytes_more
        connected = {one.name for one in self.viewers}
        away = [name for name in self._counts if name not in connected]
        for name in away[: max(len(self._counts) - COUNTS_MAX, 0)]:
            del self._counts[name]

    def _drop(self, file: int) -> None:
        del self.outputs[file]
        os.close(file)
        if self._input == file:
            self._input = None

    def _finish(self, viewer: Viewer) -> None:
        viewer.send(b"x", json.dumps({"code": self.code}).encode())
        viewer.leaves = True


class Recording:
    """A terminal's output as an asciicast, version 2 (https://docs.asciinema.org/manual/asciicast/v2/). Input is not
    recorded: it holds passwords that are not shown."""

    def __init__(self, name: str, size: tuple[int, int]) -> None:
        os.makedirs("recordings", mode=0o700, exist_ok=True)
        began = time.time()
        self._path = f"recordings/{int(began * 1000)}-{name}.cast"
        self._file = open(self._path, "xb", buffering=0)  # noqa: SIM115 # open as long as the terminal
        self._began = began
        self._left = RECORD_BYTES_MAX
        head = {"version": 2, "width": size[1], "height": size[0], "timestamp": int(began)}
        try:
            self._file.write(json.dumps(head).encode() + b"\n")
        except OSError:
            self.discard()
            raise

    def write(self, kind: str, text: str) -> None:
        """Append an event."""
        self._write([round(time.time() - self._began, 6), kind, text])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def discard(self) -> None:
        """Remove the file."""
        self._file.close()
        os.unlink(self._path)

    def _write(self, line: object) -> None:
        data = json.dumps(line).encode() + b"\n"
        self._left -= len(data)
        if self._left > 0:
            try:
                self._file.write(data)
            except OSError:  # the disk is full
                self._left = 0


def _become(
    order: Order, main: int, argv: list[bytes], environment: dict[bytes, bytes], files: list[int], *, is_tty: bool
) -> None:
    """Runs in the forked process; never returns. In a sandbox, a second fork enters its process namespace."""
    code = NOT_RUNNABLE
    try:
        job = None if order.sandbox is None else job_of(main)
        if order.sandbox is not None and job is None:
            raise OSError(0, "the sandbox of the job is not ready", "")
        join_groups(order)
        switch_account(order)
        if job is not None:
            _enter_namespaces(job)
            inside = os.fork()
            if inside != 0:
                for file in {0, 1, 2, *files}:
                    os.close(file)
                _, status = os.waitpid(inside, 0)
                code = os.waitstatus_to_exitcode(status)
                code = code if code >= 0 else 128 - code
                os._exit(code)
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
        if is_tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        enter_working_directory(order)
        set_limits(order)
        execute(argv, environment)
    except BaseException as error:
        code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUNNABLE
        os.write(files[2], b"aliquot: " + words(code, error).partition(b" ")[2] + b"\r\n")
    finally:
        os._exit(code)


def _enter_namespaces(job: int) -> None:
    """Enter the job's sandbox. The account owns it, so this needs no privilege, and grants none."""
    process = os.pidfd_open(job)
    if setns(process, _NAMESPACES) != 0:
        raise OSError(0, "the sandbox of the job cannot be entered", "")
    os.close(process)
    for capability in range(_CAPABILITIES):
        prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
