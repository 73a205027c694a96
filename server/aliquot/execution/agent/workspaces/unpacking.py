"""Unpacking: writes a workspace from the cache into a new kernel's work folder. Blocks on disk I/O.

The work folder is still a draft that only the agent can enter, so that nothing of a job is followed or replaced.
Nothing is written through a link: links are made last, and no file of a workspace is below one. Everything gets the
job's account; modes are 755 for folders and programs, and 644 for other files.
"""

import os
from pathlib import Path

from aliquot.execution.agent.job_user import JobUser
from aliquot.execution.agent.workspaces.cache import WorkspaceCache
from aliquot_schema.cluster.workspaces import Workspace, WorkspaceFile
from aliquot_schema.errors import Unavailable

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def unpack(workspace: Workspace, folder: Path, *, cache: WorkspaceCache, user: JobUser) -> None:
    """Write all files of a valid workspace into an empty folder.

    Raises:
        OSError: the disk is full, or a block has left the cache.
        Unavailable: a block has not the size that the listing says.
    """
    made: set[str] = set()
    for file in workspace.files:
        _make_parents(folder, file.path, made, user)
        if file.link is None:
            _write(folder / file.path, file, cache=cache, user=user)
    for file in workspace.files:
        if file.link is not None:
            path = folder / file.path
            path.symlink_to(file.link)
            if user.switches:
                os.lchown(path, user.uid, user.gid)


def _make_parents(folder: Path, path: str, made: set[str], user: JobUser) -> None:
    above = ""
    for part in path.split("/")[:-1]:
        above = f"{above}/{part}" if above else part
        if above in made:
            continue
        made.add(above)
        (folder / above).mkdir()
        os.chmod(folder / above, 0o755)  # independent of the umask
        if user.switches:
            os.chown(folder / above, user.uid, user.gid, follow_symlinks=False)


def _write(path: Path, file: WorkspaceFile, *, cache: WorkspaceCache, user: JobUser) -> None:
    with open(path, "xb", opener=lambda name, _: os.open(name, _NEW, 0o600)) as target:
        for block, size in file.sized_blocks:
            with open(cache.block(block), "rb") as source:
                data = source.read(size + 1)
            if len(data) != size:
                text = f"{file.path[:80]!r} of the working directory is not as large as its listing says"
                raise Unavailable(f"{text}; submit the session again with --sync")
            target.write(data)
        os.fchmod(target.fileno(), 0o755 if file.executable else 0o644)
        if user.switches:
            os.fchown(target.fileno(), user.uid, user.gid)
