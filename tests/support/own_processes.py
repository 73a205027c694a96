"""Processes started by tests, and their end."""

import asyncio
import os
import pwd
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

END_S_MAX: Final = 60.0


def end(process: "subprocess.Popen[Any]") -> None:
    """Ask a process to end, and kill it on a timeout; one that has ended is ignored."""
    process.terminate()
    try:
        process.wait(END_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@asynccontextmanager
async def foreign_process(machine: Path, *, gpu: int) -> AsyncIterator[str]:
    """A process on a GPU that Aliquot did not start; yields the account that it runs as."""
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    change: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid} if os.geteuid() == 0 else {}
    process = await asyncio.create_subprocess_exec("/bin/sleep", "600", **change)
    mark = machine / "holders" / str(gpu) / str(process.pid)
    mark.write_text(str(3 * 2**30))
    try:
        yield account.pw_name
    finally:
        mark.unlink()
        process.kill()
        await process.wait()
