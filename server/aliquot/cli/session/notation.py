"""How values of `aliquot session create` are written."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from aliquot.cli.connection.asking import usage

if TYPE_CHECKING:
    from aliquot.client.generated.inputs import DependencyInput, NameValueInput, SlotAmountInput

_DURATION: Final = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")
_SECONDS: Final = (86_400, 3600, 60, 1)
DEFAULT_SLOTS: Final = ("cpu=1",)
MEMORY_BYTES_MIN: Final = 2**20
"""Less is a number whose unit was forgotten: no program starts in it."""


def slots_of(resources: Sequence[str]) -> "list[SlotAmountInput]":
    """`cpu=1`, `mem=2g`, ...; what is written later stands for what was before it. Ends when one is wrong."""
    from aliquot.client.generated.inputs import SlotAmountInput

    found = dict(_pair(text, option="-r", example="cpu=1") for text in resources or DEFAULT_SLOTS)
    memory = found.get("mem", "")
    if memory.isdecimal() and 0 < int(memory) < MEMORY_BYTES_MIN:
        usage(f"-r mem={memory} is that many bytes; write a unit, like mem=64g")
    return [SlotAmountInput(slot=slot, amount=amount) for slot, amount in found.items()]


def pairs_of(texts: Sequence[str] | None, *, option: str) -> "list[NameValueInput] | None":
    """`NAME=VALUE`, each name once; None when there are none. Ends when one is wrong."""
    from aliquot.client.generated.inputs import NameValueInput

    found = dict(_pair(text, option=option, example="NAME=VALUE") for text in texts or ())
    return [NameValueInput(name=name, value=value) for name, value in found.items()] or None


def dependencies_of(
    *, ok: Sequence[str] | None, ended: Sequence[str] | None, failed: Sequence[str] | None
) -> "list[DependencyInput] | None":
    """What to wait for, by what it must come to; None when there is nothing."""
    from aliquot.client.generated.enums import DependencyCondition as Condition
    from aliquot.client.generated.inputs import DependencyInput

    asked = ((Condition.AFTER_OK, ok), (Condition.AFTER_ANY, ended), (Condition.AFTER_FAIL, failed))
    return [DependencyInput(session_id=id, condition=condition) for condition, ids in asked for id in ids or ()] or None


def seconds_of(text: str | None, *, option: str) -> float | None:
    """`90`, `90s`, `15m`, `2h30m`, `1d12h`. Ends when it is written in another way."""
    if text is None:
        return None
    found = duration_s(text)
    if found is None:
        usage(f"{option} {text}: write it like 90s, 15m, 2h30m or 1d12h")
    return found


def duration_s(text: str) -> float | None:
    """As `seconds_of`; None when it is written in another way."""
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        return None
    return sum(float(part) * unit for part, unit in zip(found.groups(), _SECONDS, strict=True) if part)


def _pair(text: str, *, option: str, example: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not name or not found:
        usage(f"{option} {text}: write it like {example}")
    return name, value
