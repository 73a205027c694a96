"""Secrets that a job gets as files: written when it starts, for its user alone, and removed at the end of all of it."""

# ruff: noqa: SIM105 -- importing contextlib would cost each shim memory

import os

from order import Order  # type: ignore[import-not-found] # a sibling: the folder is run as a program


def write_secrets(order: Order) -> None:
    """Make the folder and its files; the folder above it is nobody's but the agent's."""
    if order.secret_files is None:
        return
    path, files = order.secret_files
    os.mkdir(path, 0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name, content in files:
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
            while content:  # a file system that is nearly full takes a part, and says so with the next
                content = content[os.write(file, content) :]
            if order.user is not None:
                os.fchown(file, order.user[0], order.user[1])
            os.close(file)
        if order.user is not None:
            os.fchown(folder, order.user[0], order.user[1])
    finally:
        os.close(folder)


def remove_secrets(order: Order) -> None:
    """Remove them, and what the job put beside them; a folder that it made there is the agent's to remove."""
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
