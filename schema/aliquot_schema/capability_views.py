"""Read models of what an agent can do."""

from dataclasses import dataclass

from aliquot_schema.confinement import UNKNOWN_ENFORCEMENT, Enforcement
from aliquot_schema.devices import DeviceAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class CapabilitiesView:
    """What an agent can really do on its node."""

    kill: str
    limits: str
    switches_user: bool
    device_access: DeviceAccess
    enforced: Enforcement = UNKNOWN_ENFORCEMENT
    sandbox: str = "none"
    sandbox_mode: str = "off"
    sandbox_note: str = ""
