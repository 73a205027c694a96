"""Which node this is, and since which boot."""

import hashlib
import hmac
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aliquot_schema.ids import NodeId

_PURPOSE: Final = b"aliquot node identity"
_MACHINE_ID: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """What tells nodes, and the boots of one node, apart."""

    node_id: NodeId
    boot_id: str
    """Another one = every process from before is gone."""
    hostname: str


def node_identity(root: Path = Path("/")) -> NodeIdentity:
    """Identify this node.

    The machine id is never shown as it is: machine-id(5) wants it kept from others, so the node id is an HMAC of it.
    Without one (containers), the host name takes its place. Machines cloned with their machine id look like one node;
    such an operator names the nodes himself.

    Args:
        root: where `/etc` and `/proc` are found.
    """
    hostname = socket.gethostname()
    secret = _machine_id(root) or f"hostname:{hostname}"
    digest = hmac.new(secret.encode(), _PURPOSE, hashlib.sha256).hexdigest()
    return NodeIdentity(node_id=NodeId(digest[:32]), boot_id=_boot_id(root), hostname=hostname)


def _machine_id(root: Path) -> str | None:
    """32 hex digits; systemd writes `uninitialized` before the first boot is through, images have an empty file."""
    for name in ("etc/machine-id", "var/lib/dbus/machine-id"):
        text = _text(root / name)
        if _MACHINE_ID.fullmatch(text) and text.strip("0"):
            return text
    return None


def _boot_id(root: Path) -> str:
    boot_id = _text(root / "proc/sys/kernel/random/boot_id")
    if boot_id:
        return boot_id
    booted = re.search(r"^btime (\d+)$", _text(root / "proc/stat"), re.MULTILINE)
    return f"btime-{booted[1]}" if booted else "unknown"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
