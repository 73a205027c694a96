"""GPU requests: short names of accelerators (`gpu`, `cuda`), and the CPUs and memory that come with each GPU."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import Final

from aliquot.core.model.snapshot import milli_of
from aliquot_schema.errors import UnknownSlot
from aliquot_schema.ids import SlotName
from aliquot_schema.resources.slots import MILLI, Unlimited, is_accelerator, parse_amount
from aliquot_schema.resources.units import format_size

GPU: Final = "gpu"
"""Short name of the cluster's only kind of accelerator."""
CPU: Final = SlotName("cpu")
MEM: Final = SlotName("mem")
GIB: Final = 2**30
MIB: Final = 2**20
CLOSE: Final = 0.7
"""Least similarity of a slot that is meant; `cpu` and `gpu` have 0.67."""
Pairs = Sequence[tuple[str, str]]
"""(slot, amount as text)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PerGpu:
    """CPUs and memory of a session for each GPU that it requests; 0 = none."""

    cpus: int = 0
    mem_bytes: int = 0


NOTHING_PER_GPU: Final = PerGpu()


def accelerator_kinds(known: Iterable[str]) -> tuple[str, ...]:
    """Kinds with whole devices or shares, in alphabetical order: `cuda` of `cuda.device`."""
    units = ((slot.partition(".")[0], slot.partition(".")[2]) for slot in known)
    return tuple(sorted({kind for kind, unit in units if unit in ("device", "shares")}))


def is_short(slot: str, *, known: Collection[str]) -> bool:
    """Whether a slot may be the short name of an accelerator."""
    return slot not in known and (slot == GPU or slot in accelerator_kinds(known))


def with_full_names(pairs: Pairs, *, known: Collection[str], field: str) -> tuple[tuple[str, str], ...]:
    """The amounts with `gpu`, or a kind like `cuda`, replaced by a slot: devices for a whole number, else shares.

    Args:
        known: slots of the cluster, or of the pool.
    Raises:
        UnknownSlot: `gpu` in a cluster with several kinds of accelerators, or none; the message names those that exist.
    """
    return tuple(
        (_full_name(slot, text, known=known, field=field) if is_short(slot, known=known) else slot, text)
        for slot, text in pairs
    )


def _full_name(slot: str, text: str, *, known: Collection[str], field: str) -> str:
    kinds = accelerator_kinds(known)
    if slot == GPU and len(kinds) != 1:
        raise _ambiguous(kinds, known=known, field=field)
    kind = kinds[0] if slot == GPU else slot
    units = ("device", "shares") if _is_whole(text) else ("shares", "device")
    return next(name for name in (f"{kind}.{unit}" for unit in units) if name in known)


def _ambiguous(kinds: Sequence[str], *, known: Collection[str], field: str) -> UnknownSlot:
    if kinds:
        names = " or ".join(f"{kind}.device" for kind in kinds)
        words = f"gpu: this cluster has {len(kinds)} kinds of accelerators; write {names}"
    else:
        words = "gpu: no accelerator has been registered yet; write its slot, like cuda.device or cuda.shares"
    return UnknownSlot(f"{field}: {words}", slot=GPU, known=tuple(sorted(known)))


def _is_whole(text: str) -> bool:
    """Whether an amount is meant as whole devices; also for what is no number, which is refused later."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        return True
    return not amount.is_finite() or amount == amount.to_integral_value()


def unknown_slot(slot: str, *, known: Collection[str], field: str) -> UnknownSlot:
    """The refusal of a slot that no agent has, with the one that is probably meant."""
    names = sorted({*known, *([GPU] if accelerator_kinds(known) else [])})
    close = [name for name in names if slot.startswith(name)] or get_close_matches(slot, names, n=1, cutoff=CLOSE)
    meant = f" Did you mean {close[0]}?" if close else ""
    listed = ", ".join(sorted(known))
    return UnknownSlot(
        f"{field}: no agent has slot {slot[:64]}; known slots: {listed}.{meant}", slot=slot, known=tuple(sorted(known))
    )


def with_host_amounts(pairs: Pairs, per_gpu: PerGpu, *, only: Collection[str] = (CPU, MEM)) -> Pairs:
    """The amounts of a request with the CPUs and memory that come with its GPUs, unless it names them itself.

    Fractions are rounded down: 0.2 GPU with 8 CPUs per GPU gets one CPU. Less than one CPU or 1 MiB is not requested.

    Args:
        only: the slots that may be added.
    Raises:
        InvalidAmount, NotMultipleOfQuantum: an amount of an accelerator is invalid.
    """
    named = {slot for slot, _ in pairs}
    milli = sum(map(_milli, pairs))
    cpus, mem = per_gpu.cpus * milli // MILLI, per_gpu.mem_bytes * milli // MILLI // MIB * MIB
    added = [(str(CPU), str(cpus))] if cpus and CPU in only else []
    added += [(str(MEM), format_size(mem))] if mem and MEM in only else []
    return (*pairs, *(pair for pair in added if pair[0] not in named))


def _milli(pair: tuple[str, str]) -> int:
    slot, text = pair
    if not is_accelerator(slot):
        return 0
    amount = parse_amount(slot, text)
    return 0 if isinstance(amount, Unlimited) else amount * milli_of(SlotName(slot))
