"""Admission: checks of launch orders on the agent. A refusal is final for the attempt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aliquot_schema.cluster.launching import LaunchOrder
from aliquot_schema.errors import AliquotError, InvalidRequest, UnsupportedResource
from aliquot_schema.ids import AgentId, DeviceId, SlotName
from aliquot_schema.resources.devices import Device, DeviceHealth

_CLOSED: Final = frozenset({DeviceHealth.GONE, DeviceHealth.LEAVING})
"""Devices in these states accept no new kernels."""

STALE_EPOCH = "stale_epoch"
STALE_ATTEMPT = "stale_attempt"
TOO_LATE = "too_late"
REBOOTED = "rebooted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an order is refused."""

    code: str
    """Code of an `AliquotError`, or a constant of this module."""
    message: str


def refuse_stale(
    order: LaunchOrder, *, attempt: int, epoch_seen: int, attempt_seen: int, now_us: int
) -> Refusal | None:
    """Refuse an order of an older leader or attempt, or one that arrives too late; None if it is fresh."""
    if order.epoch < epoch_seen:
        return Refusal(code=STALE_EPOCH, message=f"epoch {order.epoch} is over: {epoch_seen} was seen")
    if attempt < attempt_seen:
        return Refusal(code=STALE_ATTEMPT, message=f"attempt {attempt} is over: {attempt_seen} was seen")
    if order.not_after_us is not None and now_us > order.not_after_us:
        return Refusal(code=TOO_LATE, message="the order arrived after its expiry time")
    return None


def refuse_unknown(
    order: LaunchOrder, *, agent_id: AgentId, devices: Mapping[DeviceId, Device], slots: frozenset[SlotName]
) -> Refusal | None:
    """Refuse slots and devices that this agent does not have, and invalid commands or environments."""
    try:
        _check_text(order)
        for slot, amounts in order.spec.items():
            _check_slot(slot, amounts, agent_id=agent_id, devices=devices, slots=slots)
    except AliquotError as error:
        return Refusal(code=error.code, message=error.message)
    return None


def _check_slot(
    slot: SlotName,
    amounts: Mapping[DeviceId, int],
    *,
    agent_id: AgentId,
    devices: Mapping[DeviceId, Device],
    slots: frozenset[SlotName],
) -> None:
    wanted = {id: amount for id, amount in amounts.items() if amount != 0}
    if wanted and slot not in slots:
        requested = str(sum(wanted.values()))
        raise UnsupportedResource(f"agent {agent_id} has no slot {slot}", slot=slot, requested=requested)
    for id, amount in wanted.items():
        device = devices.get(id)
        if device is None or device.health in _CLOSED or device.capacity(slot) < amount:
            text = f"agent {agent_id} has no device {id} with {amount} of {slot}"
            raise UnsupportedResource(text, slot=slot, requested=str(amount))


def _check_text(order: LaunchOrder) -> None:
    texts = [*order.argv, *order.environment, *order.environment.values(), order.working_directory or ""]
    if not order.argv or not order.argv[0]:
        raise InvalidRequest("the command is empty", field="command")
    if any("\0" in text for text in texts):
        raise InvalidRequest("the command, environment or working directory contains a zero byte", field="command")
    if any("=" in name or not name for name in order.environment):
        raise InvalidRequest("the name of an environment variable is empty or contains '='", field="environment")
    try:
        "".join(texts).encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise InvalidRequest("the command or the environment is not valid UTF-8", field="command") from None
