"""Confinement: limits on processes and open files, sandbox profiles, and the mechanisms that enforce them."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from aliquot_schema.enums import DescribedStr

SANDBOX_LABEL: Final = "aliquot.sandbox"
"""Implicit label of agents with a sandbox, its value the profile's name; required by sessions that need a sandbox."""
IMAGES_LABEL: Final = "aliquot.images"
"""Implicit label of agents that can run containers, with the value `yes`; required by sessions with an image."""
IMAGE_LABEL: Final = "aliquot.image."
"""Start of the implicit labels of agents that hold an image, see `image_label`; preferred by sessions with it."""
ABILITIES: Final = {
    "workspace": "can unpack uploaded files",
    "activates": "can activate environments",
    "preflight": "can run preflights",
    "checkpoint": "can send checkpoint signals",
}
"""Fields of a launch order that agents of earlier releases would ignore, and what an agent that knows them can do."""
ASKED_BY: Final = {field: field for field in ABILITIES} | {"checkpoint": "checkpoint_signal"}
"""The field of a session's spec that each of them is made from; one that is set requires it."""
ABILITY_LABELS: Final = {field: f"aliquot.can.{field}" for field in ABILITIES}
"""Implicit labels of agents that know these fields, with the value `yes`; required by sessions with them."""
IMAGES_MAX: Final = 64
"""Images that an agent names."""
IMAGE_CHARS_MAX: Final = 512
PROCESSES_MIN: Final = 8
"""A sandbox and a shell need some processes themselves."""
OPEN_FILES_MIN: Final = 16
LIMIT_MAX: Final = 1_000_000


def labels_text(labels: Sequence[str]) -> str:
    """What an agent with labels, as `name=value`, has and can do, like "has a sandbox and can run container images"."""
    able = {f"{ABILITY_LABELS[field]}=yes": words for field, words in ABILITIES.items()}
    own = [one for one in labels if one.partition("=")[0] not in (IMAGES_LABEL, SANDBOX_LABEL) and one not in able]
    found = [f"has the {'label' if len(own) == 1 else 'labels'} {', '.join(own)}"] if own else []
    names = {one.partition("=")[0] for one in labels}
    found += ["has a sandbox"] if SANDBOX_LABEL in names else []
    found += ["can run container images"] if IMAGES_LABEL in names else []
    return " and ".join(found + [words for label, words in able.items() if label in labels])


def upgrade_text(labels: Sequence[str]) -> str:
    """What to do where agents lack an ability because of their release; empty if none of the labels is an ability."""
    if any(f"{label}=yes" in labels for label in ABILITY_LABELS.values()):
        return " Agents of an earlier release cannot: upgrade them."
    return ""


def image_label(image: str) -> str:
    """The implicit label of agents that hold an image: its name as registries write it in full, with host and tag."""
    name = image.removeprefix("docker://")
    first, slash, _ = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif first != "localhost" and "." not in first and ":" not in first:
        name = f"docker.io/{name}"
    is_exact = "@" in name or ":" in name.rpartition("/")[2]
    return IMAGE_LABEL + (name if is_exact else f"{name}:latest")


class SandboxProfile(DescribedStr):
    """What a job can see of its node."""

    STANDARD = (
        "standard",
        "A read-only system, a private /tmp and /dev, no processes of other jobs, no files of the server.",
    )


class SessionLimits(Struct, frozen=True, kw_only=True):
    """Limits per kernel; None = the agent's settings."""

    processes: int | None = None
    """Processes and threads."""
    open_files: int | None = None
    """Open files per process."""


NO_LIMITS: Final = SessionLimits()


class Enforcement(Struct, frozen=True, kw_only=True):
    """Mechanism that enforces each limit on an agent: `cgroup_v2`, `cgroup_v1`, `rlimit`, `shim` or `none`."""

    memory: str = "none"
    processes: str = "none"
    cpu: str = "none"
    open_files: str = "none"
    file_size: str = "none"
    wall_time: str = "shim"


UNKNOWN_ENFORCEMENT: Final = Enforcement()
