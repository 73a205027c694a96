"""Agent processes with another boot id: a test's substitute for a reboot."""

from pathlib import Path
from typing import Final

PATCH: Final = """
import os
if os.environ.get("TEST_BOOT_ID"):
    import aliquot.execution.devices.node as identity
    identity._boot_id = lambda root: os.environ["TEST_BOOT_ID"]
"""


def booted_as(boot_id: str, *, folder: Path) -> dict[str, str]:
    """Variables for an agent that reports this boot id.

    Args:
        folder: where a module for Python's start is kept.
    """
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(PATCH)
    return {"TEST_BOOT_ID": boot_id, "PYTHONPATH": str(folder)}
