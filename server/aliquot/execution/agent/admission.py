"""Which orders an agent takes. A refusal is final for the attempt."""

from collections.abc import Mapping
from dataclasses import dataclass

from aliquot_schema.devices import Device, DeviceHealth
from aliquot_schema.errors import AliquotError, InvalidRequest, UnsupportedResource
from aliquot_schema.ids import AgentId, DeviceId, SlotName
from aliquot_schema.launching import LaunchOrder

STALE_EPOCH = "stale_epoch"
STALE_ATTEMPT = "stale_attempt"
TOO_LATE = "too_late"
REBOOTED = "rebooted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an order is not taken."""

    code: str
    """An error's code, or one of this module's."""
    message: str


def refuse_stale(
    order: LaunchOrder, *, attempt: int, epoch_seen: int, attempt_seen: int, now_us: int
) -> Refusal | None:
    """Refuse what an older leader, an older attempt or a slow network brings; None when it is fresh."""
    if order.epoch < epoch_seen:
        return Refusal(code=STALE_EPOCH, message=f"epoch {order.epoch} is over: {epoch_seen} was seen")
    if attempt < attempt_seen:
        return Refusal(code=STALE_ATTEMPT, message=f"attempt {attempt} is over: {attempt_seen} was seen")
    if order.not_after_us is not None and now_us > order.not_after_us:
        return Refusal(code=TOO_LATE, message="the order came after the time until which it held")
    return None


def refuse_unknown(
    order: LaunchOrder, *, agent_id: AgentId, devices: Mapping[DeviceId, Device], slots: frozenset[SlotName]
) -> Refusal | None:
    """Refuse slots and devices that this agent does not have, and commands that no system can run."""
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
        if device is None or device.health is DeviceHealth.GONE or device.capacity(slot) < amount:
            text = f"agent {agent_id} has no device {id} with {amount} of {slot}"
            raise UnsupportedResource(text, slot=slot, requested=str(amount))


def _check_text(order: LaunchOrder) -> None:
    texts = [*order.argv, *order.environment, *order.environment.values(), order.working_directory or ""]
    if not order.argv or not order.argv[0]:
        raise InvalidRequest("the command is empty", field="command")
    if any("\0" in text for text in texts):
        raise InvalidRequest("a zero byte is in the command, the environment or the working directory", field="command")
    if any("=" in name or not name for name in order.environment):
        raise InvalidRequest("a variable's name is empty or has a '=' in it", field="environment")
    try:
        "".join(texts).encode(errors="surrogateescape")
    except UnicodeEncodeError:
        raise InvalidRequest("the command or the environment cannot be written as UTF-8", field="command") from None
