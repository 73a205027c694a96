"""Drafts: folders in which Podman keeps what it has fetched of an image so far.

Killed, it leaves them; it does not end by SIGTERM, and another temporary folder would move its other files, too. Also
imported by the agent, for the pull of a killed shim.
"""

import os

# ruff: noqa: SIM105 -- importing contextlib would cost each shim memory

_DRAFTS = "/var/tmp/storage"
"""Start of the folders' names."""


def drafts_of(pids: list[int]) -> list[str]:
    """The folders in which processes have files open."""
    found = []
    for pid in pids:
        try:
            paths = [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        found += [path.rpartition("/")[0] for path in paths if path.startswith(_DRAFTS)]
    return found


def remove_drafts(path: str, account: int) -> None:
    """Remove a folder of drafts, if the account owns it."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    if os.fstat(folder).st_uid == account:
        for name in os.listdir(folder):
            try:
                os.unlink(name, dir_fd=folder)
            except OSError:
                pass
        try:
            os.rmdir(path)
        except OSError:
            pass
    os.close(folder)
