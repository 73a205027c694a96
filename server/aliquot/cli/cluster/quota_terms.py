"""What a quota says, as it is written on the command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aliquot.cli.connection.asking import usage
from aliquot.cli.connection.printing import printable

if TYPE_CHECKING:
    from aliquot.client.generated.administration import Quota
    from aliquot.client.generated.administration_inputs import SetQuotaInput
    from aliquot.client.generated.amounts import SlotAmount
    from aliquot.client.generated.enums import QuotaScope
    from aliquot.client.generated.inputs import SlotAmountInput

LIFTED: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaTerms:
    """What is asked of each limit; None in a number is "as it is", and so is a slot that is not named."""

    max_slots: Mapping[str, str]
    own_slots: Mapping[str, str]
    max_queued: str | None
    gpu_hours: str | None
    weight: str | None

    @classmethod
    def read(
        cls,
        *,
        max_slots: Sequence[str] | None,
        own_slots: Sequence[str] | None,
        max_queued: str | None,
        gpu_hours: str | None,
        weight: str | None,
    ) -> "QuotaTerms":
        """Read what stands on the command line. Ends when it is wrong, or says nothing."""
        if not any((max_slots, own_slots, max_queued, gpu_hours, weight)):
            usage("name a limit: --max SLOT=AMOUNT, --own SLOT=AMOUNT, --max-queued, --gpu-hours or --weight")
        for option, text in (("--max-queued", max_queued), ("--gpu-hours", gpu_hours), ("--weight", weight)):
            if text not in (None, LIFTED) and not text.isdecimal():
                usage(f"{option} {text}: it is a whole number, or {LIFTED}")
        return cls(
            max_slots=_slots(max_slots, option="--max"),
            own_slots=_slots(own_slots, option="--own"),
            max_queued=max_queued,
            gpu_hours=gpu_hours,
            weight=weight,
        )

    def over(self, there: "Quota | None", *, scope: "QuotaScope", name: str) -> "SetQuotaInput":
        """The whole quota with these changes."""
        from aliquot.client.generated.administration_inputs import SetQuotaInput

        return SetQuotaInput(
            scope=scope,
            name=name,
            max_slots=_changed(there.max_slots if there else (), self.max_slots),
            own_slots=_changed(there.own_slots if there else (), self.own_slots),
            max_queued=_number(self.max_queued, there.max_queued if there else None),
            gpu_hours_per_month=_number(self.gpu_hours, there.gpu_hours_per_month if there else None),
            weight=_number(self.weight, there.weight if there else None),
            expected_version=there.version if there else 0,
        )


def scope_of(text: str) -> "tuple[QuotaScope, str]":
    """`user:NAME`, `project:NAME` or `cluster`. Ends when it is written in another way."""
    from aliquot.client.generated.enums import QuotaScope

    scope, _, name = text.partition(":")
    if scope not in list(QuotaScope) or bool(name) == (scope == QuotaScope.CLUSTER):
        usage(f"{text}: write user:NAME, project:NAME or cluster")
    return QuotaScope(scope), name


def subject(quota: "Quota") -> str:
    """Whom it is for, as `scope_of` reads it."""
    return f"{quota.scope}:{printable(quota.name)}" if quota.name else str(quota.scope)


def terms(quota: "Quota") -> str:
    """What it says, as the options are written."""
    parts = [f"--max {one.slot}={one.amount}" for one in quota.max_slots]
    parts += [f"--own {one.slot}={one.amount}" for one in quota.own_slots]
    numbers = {"max-queued": quota.max_queued, "gpu-hours": quota.gpu_hours_per_month, "weight": quota.weight}
    parts += [f"--{name} {number}" for name, number in numbers.items() if number is not None]
    return " ".join(parts)


def _slots(texts: Sequence[str] | None, *, option: str) -> dict[str, str]:
    found = {}
    for text in texts or ():
        slot, given, amount = text.partition("=")
        if not (slot and given and amount):
            usage(f"{option} {text}: write it like cuda.device=2")
        found[slot] = amount
    return found


def _changed(there: "Sequence[SlotAmount]", asked: Mapping[str, str]) -> "list[SlotAmountInput] | None":
    from aliquot.client.generated.inputs import SlotAmountInput

    amounts = {one.slot: one.amount for one in there} | dict(asked)
    return [SlotAmountInput(slot=slot, amount=amount) for slot, amount in amounts.items() if amount != LIFTED] or None


def _number(asked: str | None, there: int | None) -> int | None:
    if asked is None:
        return there
    return None if asked == LIFTED else int(asked)
