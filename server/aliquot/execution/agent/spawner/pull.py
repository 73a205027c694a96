"""Pull: fetches a container's image in the place of the job before it, unless the account has the image.

The runtime runs as the job's account, in the kernel's cgroups. It writes to a terminal of its own, because only there
it says how far it is: `pull.json` has the bytes and layers so far, and at the end the size of the image.
"""

import _signal as signal  # type: ignore[import-not-found] # without the enumerations: they cost a shim 0.7 MiB
import fcntl
import os
import struct
import time

from child import fork_child  # type: ignore[import-not-found] # siblings: the folder is run as a program
from descendants import kill_tree, tree_pids  # type: ignore[import-not-found]
from drafts import drafts_of, remove_drafts  # type: ignore[import-not-found]
from order import Order  # type: ignore[import-not-found]
from preflight import STOPPED  # type: ignore[import-not-found]
from records import Fields, write_record  # type: ignore[import-not-found]

_SET_SIZE = 0x5414
"""`TIOCSWINSZ` of <asm/termios.h>; the module termios would cost memory."""
_COLUMNS = 160
_READ_S = 0.25
_WRITE_MS = 1_000
"""Interval between two records of the progress."""
_TEXT_MAX = 8_000
_BLOB = b"Copying blob "
_UNITS = {b"TiB": 1 << 40, b"GiB": 1 << 30, b"MiB": 1 << 20, b"KiB": 1 << 10, b"b": 1}


class Pull:
    """The pull of one kernel. Times are milliseconds of CLOCK_BOOTTIME.

    Args:
        folder: an open descriptor of the kernel's folder.
        woken_by: the signals that a shim waits for, all blocked.
    """

    def __init__(self, order: Order, folder: int, woken_by: tuple[int, ...]) -> None:
        self._order = order
        self._folder = folder
        self._woken_by = woken_by
        self._began = 0
        self._text = b""
        """The end of what the program wrote, without terminal sequences."""
        self._rest = b""
        """The last line, which is not complete."""
        self._blobs: dict[bytes, tuple[int, int, bool]] = {}
        """Layer -> bytes so far, its size, whether it is complete."""
        self._drafts: list[str] = []
        self._account = os.geteuid() if order.user is None else order.user[0]
        self._written: Fields = {}
        self._written_at = 0

    def find(self) -> str | None:
        """Look for the image; None = the account has it, else `STOPPED` or why not."""
        assert self._order.pull is not None
        has, _, _, limit_ms, credentials = self._order.pull
        self._began = _now()
        failure = self._execute(has, limit_ms)
        if failure is None:
            self._forget(credentials)
        elif failure != STOPPED:
            self._write_progress()
        return failure

    def fetch(self) -> str | None:
        """Fetch the image after `find`; None = it is there, else `STOPPED` or what failed."""
        assert self._order.pull is not None
        _, fetch, size, limit_ms, credentials = self._order.pull
        failure = self._execute(fetch, limit_ms, is_watched=True)
        if failure is None:
            self._forget(credentials)
            took_ms = _now() - self._began
            failure = self._execute(size, limit_ms)
            number = self._text.strip()
            self._write(
                took_ms=took_ms, size_bytes=int(number) if failure is None and number.isdigit() else None, is_done=True
            )
            failure = STOPPED if failure == STOPPED else None
        return failure

    def _execute(self, argv: list[bytes], limit_ms: int, *, is_watched: bool = False) -> str | None:
        """Run a program until it ends; None = its exit code was 0, else `STOPPED` or what failed."""
        self._text = self._rest = b""
        terminal, end = os.openpty()
        os.set_blocking(terminal, False)
        fcntl.ioctl(end, _SET_SIZE, struct.pack("4H", 50, _COLUMNS, 0, 0))
        order = Order({**self._order.__dict__, "argv": argv})
        child = fork_child(order, self._folder, output=end)
        os.close(end)
        child.open_gate()
        try:
            status, ended_by = self._supervise(child.pid, terminal, is_watched=is_watched, due=self._began + limit_ms)
            self._read(terminal)
        finally:
            os.close(terminal)
        complaint = os.read(child.complaint, 4096).decode(errors="replace")
        os.close(child.complaint)
        return ended_by or complaint.partition(" ")[2] or self._failure(status)

    def _supervise(self, pid: int, terminal: int, *, is_watched: bool, due: int) -> tuple[int, str | None]:
        """Wait for the end; returns the exit status, and `STOPPED` or another reason why it was killed."""
        killed: str | None = None
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                if killed is not None:
                    for path in self._drafts:
                        remove_drafts(path, self._account)
                return status, killed
            self._read(terminal)
            if is_watched and _now() >= self._written_at + _WRITE_MS:
                self._note_drafts(pid)
                self._write_progress()
            if killed is not None:
                self._note_drafts(pid)
                kill_tree(os.getpid(), self._order.group)
            found = signal.sigtimedwait(self._woken_by, _READ_S)
            if found is not None and found.si_signo == signal.SIGTERM:
                killed = STOPPED
            elif killed is None and _now() >= due:
                killed = f"it took longer than {(due - self._began) / 1000:g} s"

    def _note_drafts(self, pid: int) -> None:
        """The agent removes them if this shim is killed, and its program with it."""
        self._drafts = list(dict.fromkeys([*self._drafts, *drafts_of([pid, *tree_pids(pid)])]))

    def _failure(self, status: int) -> str | None:
        if os.WIFSIGNALED(status):
            return f"the program was ended by signal {os.WTERMSIG(status)}"
        code = os.WEXITSTATUS(status)
        if code == 0:
            return None
        said = self._text + self._rest
        start = max(said.rfind(b"Error: "), 0)
        text = b" ".join((said[start:] if b"Error: " in said else said[-600:]).split()).decode(errors="replace")
        return text[:1500] or f"the program exited with code {code}"

    def _read(self, terminal: int) -> None:
        """Read what the program has written, as far as it is there."""
        while True:
            try:
                data = os.read(terminal, 4096)
            except OSError:  # nothing is there, or the other end was closed
                return
            if not data:
                return
            *lines, self._rest = (self._rest + data).replace(b"\r", b"").replace(b"\x1b[J", b"").split(b"\n")
            for line in lines:
                self._note(line)
            self._text = (self._text + b"\n".join([*lines, b""]))[-_TEXT_MAX:] if lines else self._text
            self._rest = self._rest[-_TEXT_MAX:]

    def _note(self, line: bytes) -> None:
        """Take the progress from a line like `Copying blob 5ad0d5a1 [===>---] 1.3MiB / 5.6MiB`."""
        name, _, state = line.partition(_BLOB)[2].partition(b" ")
        if not name:
            return
        known, total, is_complete = self._blobs.get(name, (0, 0, False))
        if state.startswith((b"done", b"skipped")):
            known, is_complete = total, True
        elif b" / " in state:
            before, _, after = state.partition(b" / ")
            known, total = _bytes(before.split()[-1]), _bytes(after.split()[0])
        self._blobs[name] = known, total, is_complete

    def _write_progress(self) -> None:
        self._written_at = _now()
        self._write(took_ms=None, size_bytes=None, is_done=False)

    def _write(self, *, took_ms: int | None, size_bytes: int | None, is_done: bool) -> None:
        fields: Fields = {
            "began_ms": self._began,
            "took_ms": took_ms,
            "bytes_done": sum(blob[0] for blob in self._blobs.values()),
            "bytes_total": sum(blob[1] for blob in self._blobs.values()),
            "layers_done": sum(blob[2] for blob in self._blobs.values()),
            "layers": len(self._blobs),
            "size_bytes": size_bytes,
            "is_done": is_done,
            "account": self._account,
            "drafts": ":".join(self._drafts),
        }
        if fields != self._written:
            self._written = fields
            write_record(self._folder, "pull.json", fields)

    def _forget(self, name: str) -> None:
        """Remove the credentials, which the job is not given."""
        if name and self._order.secret_files is not None:
            os.unlink(os.path.join(self._order.secret_files[0], name))


def _bytes(text: bytes) -> int:
    """The number of bytes of a text like `1.3MiB`; 0 if it has another form."""
    for unit, size in _UNITS.items():
        if text.endswith(unit):
            try:
                return int(float(text[: -len(unit)]) * size)
            except ValueError:
                return 0
    return 0


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
