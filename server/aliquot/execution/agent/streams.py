"""Streams of an agent: connections to the terminals and the ports of its kernels. See `aliquot_schema.cluster.streams`.

A port is connected only if a process of the kernel listens on it: a session opens no services of other sessions or of
the host.
"""

import asyncio
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import asdict

from aliquot.execution.agent.kernel_state import KernelStatus, observe
from aliquot.execution.agent.kernels import KernelHandle
from aliquot.execution.agent.shim_client import ask_for_terminals
from aliquot.execution.agent.spawner.descendants import tree_pids
from aliquot_schema.cluster.streams import FRAME_BYTES_MAX, StreamTarget, TerminalRequest, frame
from aliquot_schema.errors import InvalidRequest, NotFound, Unavailable

SOCKET: Final = "terminals.sock"
"""Same value as in `spawner.terminals`."""
START_S_MAX: Final = 10.0
ASK_AGAIN_S: Final = 1.0
TRY_AGAIN_S: Final = 0.01
_LISTENS: Final = "0A"
"""State TCP_LISTEN in /proc/net/tcp."""
_LOOPBACK: Final = {"0100007F": "127.0.0.1", "00000000": "127.0.0.1", "0" * 32: "::1", f"{'0' * 24}01000000": "::1"}
"""Addresses in /proc/net/tcp and tcp6, on a little-endian machine, and where to connect."""


class SocketStream:
    """A stream over a connected socket of this host. It uses no asyncio transport: that stops reading after a failed
    write, and would lose an answer that was sent before the app closed the connection."""

    def __init__(self, connected: socket.socket, *, is_port: bool = False) -> None:
        """
        Args:
            connected: does not block; the stream closes it.
            is_port: whether it is a TCP port, where a broken connection is an error and not an end.
        """
        self._socket = connected
        self._is_port = is_port
        self._is_ended = False
        """Whether a side said that nothing more follows."""
        self._failure: OSError | None = None
        """Why nothing more can be written. The system reports a reset only once: to a read, or to a write."""

    async def read(self) -> bytes:
        """The next piece; empty at the end.

        Raises:
            Unavailable: the session broke the connection to its port.
        """
        try:
            data = await asyncio.get_running_loop().sock_recv(self._socket, FRAME_BYTES_MAX)
            if not data and self._failure is not None:
                raise self._failure
        except OSError as error:
            if self._is_port:
                raise Unavailable(f"the session broke the connection: {error.strerror}") from None
            data = b""
        self._is_ended |= not data
        return data

    async def write(self, data: bytes) -> None:
        """Send a piece; waits while the other side does not read. Data for a closed socket is dropped."""
        try:
            await asyncio.get_running_loop().sock_sendall(self._socket, data)
        except OSError as error:
            self._failure = self._failure or error

    async def end(self) -> None:
        """Nothing more will be sent."""
        self._is_ended = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        """Close both directions. A port is reset if neither side has ended, so that it does not take what it has
        received for all."""
        if self._is_port and not self._is_ended:
            with suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()


async def connected_port(address: str, port: int) -> SocketStream:
    """A stream to a TCP port of this host.

    Raises:
        OSError: it cannot be connected.
    """
    connected = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connected, (address, port))
    except BaseException:
        connected.close()
        raise
    return SocketStream(connected, is_port=True)


async def open_stream(kernel: KernelHandle, target: StreamTarget, *, boot_id: str) -> SocketStream:
    """Connect to a terminal or a port of a kernel that runs.

    Raises:
        NotFound: the kernel does not run here, or none of its processes listens on the port.
        Unavailable: the terminal cannot be opened.
    """
    claim = await asyncio.to_thread(_claim, kernel, boot_id)
    if target.terminal is not None:
        return await _open_terminal(kernel, claim, target.terminal)
    assert target.port is not None
    address = await asyncio.to_thread(listener_of, claim["pid"], target.port)
    if address is None:
        text = f"no process of the session listens on port {target.port} of 127.0.0.1 or ::1"
        raise NotFound(text, kind="port", id=str(target.port))
    try:
        return await connected_port(address, target.port)
    except OSError as error:
        raise Unavailable(f"port {target.port} cannot be connected: {error}") from None


def listener_of(shim: int, port: int) -> str | None:
    """The loopback address at which a descendant of the shim listens on a TCP port; None = none does. Blocks."""
    wanted = dict(_listeners(port))
    if not wanted:
        return None
    for pid in tree_pids(shim):
        for inode in _sockets(pid):
            if inode in wanted:
                return wanted[inode]
    return None


def _listeners(port: int) -> Iterator[tuple[str, str]]:
    """(inode, loopback address) of the sockets that listen on a port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text("ascii").splitlines()[1:]:
                fields = line.split()
                address, _, number = fields[1].partition(":")
                if fields[3] == _LISTENS and int(number, 16) == port and address in _LOOPBACK:
                    yield fields[9], _LOOPBACK[address]


def _sockets(pid: int) -> Iterator[str]:
    """Inodes of the sockets that a process has open."""
    with suppress(OSError):
        for file in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                kind, _, inode = os.readlink(f"/proc/{pid}/fd/{file}").partition(":")
                if kind == "socket":
                    yield inode.strip("[]")


def _claim(kernel: KernelHandle, boot_id: str) -> dict[str, int]:
    observation = observe(kernel.folder, boot_id=boot_id, ordered_boot_id=kernel.ordered_boot_id)
    if observation.status is not KernelStatus.ALIVE or observation.claim is None or not observation.has_pid:
        raise _not_running(kernel)
    return observation.claim


async def _open_terminal(kernel: KernelHandle, claim: dict[str, int], asked: TerminalRequest) -> SocketStream:
    """Connect to the program `spawner.terminals`; the shim starts it when it is asked."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + START_S_MAX
    ask_at = loop.time()
    folder = os.open(kernel.folder.path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        while loop.time() < give_up:
            with suppress(OSError):
                return await _introduced(_connected_terminal(folder), asked)
            if loop.time() >= ask_at:
                if not ask_for_terminals(claim):
                    raise _not_running(kernel)
                ask_at = loop.time() + ASK_AGAIN_S
            await asyncio.sleep(TRY_AGAIN_S)
    finally:
        os.close(folder)
    raise Unavailable(
        f"no terminal of kernel {kernel.kernel_id} opened within {START_S_MAX:g} s; sessions that were started by an "
        "earlier version have none"
    )


def _connected_terminal(folder: int) -> SocketStream:
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.setblocking(False)
        # By the descriptor: the path of a Unix socket has at most 107 bytes.
        connected.connect(f"/proc/self/fd/{folder}/{SOCKET}")
    except OSError:
        connected.close()
        raise
    return SocketStream(connected)


def _not_running(kernel: KernelHandle) -> NotFound:
    return NotFound(f"kernel {kernel.kernel_id} is not running here", kind="kernel", id=kernel.kernel_id)


async def _introduced(stream: SocketStream, asked: TerminalRequest) -> SocketStream:
    content = json.dumps(asdict(asked)).encode(errors="replace")
    if len(content) > FRAME_BYTES_MAX:
        await stream.close()
        raise InvalidRequest("command: it is too long", field="command")
    await stream.write(frame(b"O", content))
    return stream
