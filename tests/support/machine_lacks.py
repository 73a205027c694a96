"""What the machine lacks and a test needs: such tests are left out with one line in the summary.

With TESTS_LEAVE_NOTHING_OUT in the environment, as `.ci/run` sets it, they fail instead.
"""

import os
import pwd
import shutil
from pathlib import Path
from typing import Final

import pytest

STRICT: Final = "TESTS_LEAVE_NOTHING_OUT"
DASHBOARD: Final = Path(__file__).parents[2] / "server" / "dashboard"
POSTGRES_ACCOUNT: Final = "pgserver"
"""The account that the wheel's PostgreSQL runs as where the tests run as root."""
NO_ANSWER: Final = (
    *("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ECONNRESET", "ENETUNREACH", "EHOSTUNREACH", "ETIMEDOUT"),
    "ERR_SOCKET_TIMEOUT",
)
"""What npm prints when it cannot reach its registry."""


class MachineLacks(Exception):
    """A tool or a network that the test needs is missing. The message says which, and what to do."""


def check_postgres_account() -> None:
    """
    Raises:
        MachineLacks: PostgreSQL does not run as root, and no other account can be made for it.
    """
    if os.geteuid() != 0 or shutil.which("useradd") is not None:
        return
    try:
        pwd.getpwnam(POSTGRES_ACCOUNT)
    except KeyError:
        raise MachineLacks(
            f"PostgreSQL needs the account {POSTGRES_ACCOUNT}, and useradd is not on PATH to make it; "
            "add /usr/sbin to PATH, or run the tests as another user than root"
        ) from None


def check_npm_registry(printed: str) -> None:
    """
    Args:
        printed: by a command that failed and calls npm.

    Raises:
        MachineLacks: it failed because the registry did not answer.
    """
    if "npm" in printed and any(code in printed for code in NO_ANSWER):
        raise MachineLacks("npm cannot reach its registry; `npm config get registry` shows which it asks")


def node_with(package: str) -> str:
    """The path of Node, where one of the dashboard's packages is installed.

    Raises:
        MachineLacks: Node is here, and scripts/setup could not install the package.
    """
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    if not (DASHBOARD / "node_modules" / package).is_dir():
        raise MachineLacks("npm could not install the dashboard's packages; scripts/test says why when it starts")
    return node
