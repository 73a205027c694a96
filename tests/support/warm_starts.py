"""Starts of `python -m aliquot` from a process that has imported it already, each seconds shorter.

Hundreds of servers, agents and commands imported the same modules, which took a quarter of the suite's time. Here
`subprocess.Popen` forks them from a warm process instead. Each is a process of its own, with its own arguments,
environment, folder and files, and a child of the test's process; only its command line in /proc is the warm one's.

Cold, as for a user, remain: starts by a shell or another program, as another account or with other options of Python,
and all starts of `scripts/test --long`.
"""

import atexit
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, NoReturn

COMMAND: Final = (sys.executable, "-m", "aliquot")
BYTES_MAX: Final = 100_000
FDS_MAX: Final = 64
PR_SET_CHILD_SUBREAPER: Final = 36
LIMITS: Final = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})
IMPORTED: Final = (
    "alembic.command",
    "aliquot.api.application",
    "aliquot.api.protocols",
    "aliquot.app.composition",
    "aliquot.app.logging",
    "aliquot.app.running",
    "aliquot.cli.agent",
    "aliquot.cli.listener",
    "aliquot.cli.serve",
    "aliquot.cli.session.list",
    "aliquot.cli.state_export",
    "aliquot.client.sessions",
    "aliquot.store.export",
    "aliquot.store.replication.readings_relay",
    "asyncpg",
    "encodings.idna",
    "pynvml",
    "strawberry.federation.schema_directives",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
    "uvloop",
)
OF_PYTHON: Final = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "OPENBLAS", "OMP_", "TZ", "TERM", "SSL_")
"""Prefixes of variables that Python or a library reads at startup."""


def install() -> None:
    """Make every `subprocess.Popen` here start `python -m aliquot` warm, where possible."""
    warm = _Warm()
    cold_start = subprocess.Popen._execute_child  # type: ignore[attr-defined]

    def start(self: "subprocess.Popen[Any]", args: Any, executable: Any, *rest: Any) -> None:
        if not warm.start(self, args, rest):
            cold_start(self, args, executable, *rest)

    subprocess.Popen._execute_child = start  # type: ignore[attr-defined]


def _from_start(environment: "dict[str, str] | os._Environ[str]") -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(OF_PYTHON)}


def _is_mine(pid: int) -> bool:
    """Whether a process is now a child of this one. An ended child stays one until reaped."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    return int(text.rpartition(")")[2].split()[1]) == os.getpid()


def _inherited() -> tuple[object, ...]:
    """State that a new process inherits, besides its files and its environment."""
    limits = [resource.getrlimit(limit) for limit in LIMITS]
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    lines = [line for line in status.splitlines() if line.startswith(("Umask", "Cap", "Uid", "Gid", "Cpus_allowed:"))]
    return limits, lines, os.getpriority(os.PRIO_PROCESS, 0), Path("/proc/self/cgroup").read_text(encoding="utf-8")


class _Warm:
    """The warm process, started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wire: socket.socket | None = None
        self._inherited: tuple[object, ...] = ()
        self._owner = os.getpid()
        self._libc = ctypes.CDLL(None, use_errno=True)

    def start(self, popen: "subprocess.Popen[Any]", args: Any, rest: Sequence[Any]) -> bool:
        """Start a command; False if it must be started cold. `rest` is as of `Popen._execute_child`."""
        preexec, close_fds, pass_fds, cwd, env, _, _, shell = rest[:8]
        pipes = p2cread, _, _, c2pwrite, _, errwrite = rest[8:14]
        restore_signals, *account, new_session, group = rest[14:]
        words = [os.fspath(word) for word in args] if isinstance(args, list | tuple) else []
        environment = dict(os.environ if env is None else env)
        is_plain = preexec is None and close_fds and not shell and restore_signals and account == [None, None, None, -1]
        is_text = all(isinstance(text, str) for text in (*words, *environment, *environment.values()))
        if not is_plain or not is_text or tuple(words[:3]) != COMMAND or group != -1 or p2cread == 0:
            return False
        if os.getpid() != self._owner:
            return False
        if _from_start(environment) != _from_start(os.environ) or (self._wire and _inherited() != self._inherited):
            return False
        files = [number if own == -1 else own for number, own in enumerate((p2cread, c2pwrite, errwrite))]
        asked = {
            "words": words[3:],
            "environment": environment,
            "folder": os.fspath(cwd) if cwd is not None else os.getcwd(),
            "has_session": bool(new_session),
            "parent": os.getpid(),
            "passed": list(pass_fds),
        }
        request = json.dumps(asked).encode()
        if len(request) > BYTES_MAX:
            return False
        pid = self._ask(request, [*files, *pass_fds])
        popen.pid = pid
        popen._child_created = True  # type: ignore[attr-defined]
        popen._close_pipe_fds(*pipes)  # type: ignore[attr-defined]
        return True

    def _ask(self, asked: bytes, files: list[int]) -> int:
        with self._lock:
            if self._wire is None:
                self._wire, self._inherited = _open(), _inherited()
            # The new process is briefly an orphan of the warm one; this process adopts it.
            self._libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._wire, [asked], files)
                answer = self._wire.recv(64)
                while answer and not _is_mine(int(answer)):
                    time.sleep(0.0005)
            finally:
                self._libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
            if not answer:
                raise RuntimeError("the warm process has ended; see its output")
            return int(answer)


def _open() -> socket.socket:
    """Start a warm process, and return the socket to it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, cwd="/")

    def end_it() -> None:
        if os.getpid() == owner:
            ours.close()
            process.wait()

    owner = os.getpid()
    atexit.register(end_it)
    return ours


def serve(wire: socket.socket) -> dict[str, Any]:
    """Fork a process per request. Returns in the new process, with its request."""
    while True:
        data, files, _, _ = socket.recv_fds(wire, BYTES_MAX, FDS_MAX)
        if not data:
            os._exit(0)
        middle = os.fork()
        if middle == 0:
            child = os.fork()
            if child == 0:
                asked: dict[str, Any] = json.loads(data)
                _become(asked, files, wire=wire)
                return asked
            wire.send(b"%d" % child)
            os._exit(0)
        os.waitpid(middle, 0)
        for file in files:
            os.close(file)


def _become(asked: dict[str, Any], files: list[int], *, wire: socket.socket) -> None:
    """Set this process up as requested."""
    wire.close()
    while os.getppid() != asked["parent"]:
        time.sleep(0.0005)
    # Above the numbers that the files get.
    high = [os.dup2(file, 1000 + place, inheritable=False) for place, file in enumerate(files)]
    kept = sorted({0, 1, 2, *asked["passed"]})
    for number, file in zip((0, 1, 2, *asked["passed"]), high, strict=True):
        os.dup2(file, number)
    for low, end in zip(kept, [*kept[1:], 1 << 20], strict=True):
        os.closerange(low + 1, end)
    if asked["has_session"]:
        os.setsid()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[0] = asked["folder"]
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        old, is_direct = getattr(sys, name), mode == "w" and bool(os.environ.get("PYTHONUNBUFFERED"))
        stream: Any = open(number, f"{mode}b", buffering=0 if is_direct else -1, closefd=False)  # noqa: SIM115
        has_lines = name == "stderr" or (mode == "w" and not is_direct and stream.isatty())
        new = TextIOWrapper(
            stream, old.encoding, old.errors, newline="\n" if mode == "w" else None, line_buffering=has_lines
        )
        if is_direct:
            new.reconfigure(write_through=True)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


def _warm_up() -> None:
    """Do once, for all servers to come, what takes a new one longest: a first migration, and building the schema."""
    from copy import copy

    from sqlalchemy import create_engine

    from aliquot.api import application
    from aliquot.store.migration import migrate

    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        migrate(connection)
    engine.dispose()
    built = application.build_schema(application.FaultLog)

    def prepared(kind: Any, *, extensions: Any, executor: Any) -> Any:
        assert kind is application.FaultLog
        schema = copy(built)
        schema.extensions, schema.execution_context_class = tuple(extensions), executor
        return schema

    application.build_schema = prepared


def _run(words: list[str]) -> NoReturn:
    import runpy

    sys.argv[1:] = words
    runpy.run_module("aliquot", run_name="__main__", alter_sys=True)
    raise SystemExit


if __name__ == "__main__":
    on_interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    wire_ = socket.socket(fileno=int(sys.argv[1]))
    import gc
    from importlib import import_module

    for name_ in IMPORTED:
        import_module(name_)
    _warm_up()
    gc.freeze()
    asked_ = serve(wire_)
    signal.signal(signal.SIGINT, on_interrupt)
    _run(asked_["words"])
