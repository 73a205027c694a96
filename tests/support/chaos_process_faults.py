"""Machine faults for a real process: its clock, name resolution and disk, controlled by files.

A folder on PYTHONPATH has a `sitecustomize` that shifts `time.time` and fails `socket.getaddrinfo`; a small library
that is preloaded fails `fsync`. Jobs have neither: the spawner starts Python without site packages.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from machine_lacks import MachineLacks

SITE: Final = """
import os, socket, time
_folder = {folder!r}
_time, _time_ns, _resolve = time.time, time.time_ns, socket.getaddrinfo
def _shift_s():
    try:
        with open(os.path.join(_folder, "shift")) as file:
            return int(file.read() or 0)
    except OSError:
        return 0
def _getaddrinfo(host, *rest, **named):
    text = host.decode() if isinstance(host, bytes) else host
    if os.path.exists(os.path.join(_folder, "no-names")) and text and any(part.isalpha() for part in text):
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    return _resolve(host, *rest, **named)
time.time = lambda: _time() + _shift_s()
time.time_ns = lambda: _time_ns() + _shift_s() * 10**9
socket.getaddrinfo = _getaddrinfo
"""
FSYNC: Final = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
static int fails(void) { const char *flag = getenv("CHAOS_FSYNC"); return flag && access(flag, F_OK) == 0; }
int fsync(int file) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fsync");
  if (fails()) { errno = ENOSPC; return -1; }
  return real(file);
}
int fdatasync(int file) {
  int (*real)(int) = dlsym(RTLD_NEXT, "fdatasync");
  if (fails()) { errno = ENOSPC; return -1; }
  return real(file);
}
"""


@dataclass(frozen=True, slots=True)
class ProcessFaults:
    """Faults that can be switched on and off while the process runs."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """For a process with these clock and DNS faults."""
        (self.folder / "sitecustomize.py").write_text(SITE.format(folder=str(self.folder)))
        return {"PYTHONPATH": str(self.folder)}

    def fsync_environment(self) -> dict[str, str]:
        """For a process with disk faults.

        Raises:
            MachineLacks: there is no C compiler.
        """
        compiler = shutil.which("cc")
        if compiler is None:
            raise MachineLacks("a C compiler is needed to make fsync fail")
        source, library = self.folder / "fsync.c", self.folder / "fsync.so"
        source.write_text(FSYNC)
        command = [compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)
        return {"LD_PRELOAD": str(library), "CHAOS_FSYNC": str(self.folder / "fsync-fails")}

    def set_clock(self, seconds: int) -> None:
        """Shift the process's wall clock by `seconds`; negative is behind."""
        draft = self.folder / "shift.draft"
        draft.write_text(str(seconds))
        os.replace(draft, self.folder / "shift")

    def fail_name_resolution(self) -> None:
        """Make name resolution fail."""
        (self.folder / "no-names").touch()

    def restore_name_resolution(self) -> None:
        """Make name resolution work again."""
        (self.folder / "no-names").unlink()

    def fail_fsync(self) -> None:
        """Make fsync fail as on a full disk."""
        (self.folder / "fsync-fails").touch()

    def restore_fsync(self) -> None:
        """Make fsync work again."""
        (self.folder / "fsync-fails").unlink()
