"""Secret files of a job: written at its start, readable by its user only, removed when all its processes have ended."""

import os

from order import Order  # type: ignore[import-not-found] # a sibling: the folder is run as a program

# ruff: noqa: SIM105 -- importing contextlib would cost each shim memory


def write_secrets(order: Order) -> None:
    """Create the folder and its files; only the agent may write to the parent folder."""
    if order.secret_files is None:
        return
    path, files = order.secret_files
    os.mkdir(path, 0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name, content in files:
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            while content:  # on a nearly full file system a write is partial, and the next one fails
                content = content[os.write(file, content) :]
            if order.user is not None:
                os.fchown(file, order.user[0], order.user[1])
            os.close(file)
        if order.user is not None:
            os.fchown(folder, order.user[0], order.user[1])
    finally:
        os.close(folder)


def remove_secrets(order: Order) -> None:
    """Remove the folder and all files in it; subfolders made by the job are removed by the agent."""
    if order.secret_files is None:
        return
    try:
        folder = os.open(order.secret_files[0], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except OSError:
            pass
    os.close(folder)
    try:
        os.rmdir(order.secret_files[0])
    except OSError:
        pass
