"""Names of users, Unix accounts and projects, checked as they come in."""

import re
from collections.abc import Iterable
from typing import Final

from aliquot.core.field_checks import check_limit
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.ids import ProjectId, UserId
from aliquot_schema.sessions import DEFAULT_PROJECT

PROJECTS_MAX: Final = 64
_USER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_UNIX: Final = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_PROJECT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")


def user_name(text: str) -> UserId:
    """The name of a user: no colon, which the server's own parts have, and no slash, which divides names."""
    if not _USER.fullmatch(text):
        raise InvalidRequest(
            "name: 1 to 64 of letters, digits and . _ @ + -, beginning with a letter or digit", field="name"
        )
    return UserId(text)


def unix_name(text: str | None) -> str | None:
    """The name of a Unix account, which the agents' hosts have to know; empty = none."""
    if not text:
        return None
    if not _UNIX.fullmatch(text):
        raise InvalidRequest("unix_name: 1 to 32 of a-z, 0-9, _ and -, beginning with a letter or _", field="unix_name")
    if text == "root":
        raise InvalidRequest("unix_name: nobody's jobs run as root", field="unix_name")
    return text


def project_names(names: Iterable[str]) -> tuple[ProjectId, ...]:
    """Projects, each once, in order."""
    found = tuple(sorted(dict.fromkeys(names)))
    check_limit(len(found), field="projects", most=PROJECTS_MAX, unit="projects")
    for name in found:
        if not _PROJECT.fullmatch(name):
            raise InvalidRequest(
                "projects: 1 to 64 of letters, digits and . _ + -, beginning with a letter or digit", field="projects"
            )
        if name == DEFAULT_PROJECT:
            raise InvalidRequest(f"projects: everybody may submit to {name}, it has no members", field="projects")
    return tuple(ProjectId(name) for name in found)
