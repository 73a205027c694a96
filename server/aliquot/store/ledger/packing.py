"""Packing: ledger entries to rows and back. Done outside of the writer's thread, since checkpoints are large."""

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from aliquot.core.plan import Plan
from aliquot.service.ledger.entries import LEDGER_FORMAT, Checkpoint, Inputs, PassEntry, VerdictChange
from aliquot.store.encoding import ENCODER, decoder

_FAST: Final = 1
"""zlib's level: a quarter of the size at a tenth of the time of the usual one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """What of an entry is in no column of its own."""

    inputs: Inputs
    verdicts: tuple[VerdictChange, ...]
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """An entry, ready to be chained."""

    columns: tuple[Any, ...]
    """Number, now_us, revision, seed, epoch, code_version, format, lost."""
    body: bytes
    checkpoint: bytes | None

    @property
    def checkpoint_hash(self) -> bytes | None:
        """SHA-256 of the checkpoint's body."""
        return None if self.checkpoint is None else hashlib.sha256(self.checkpoint).digest()


def pack(entry: PassEntry) -> Packed:
    """The inverse of `unpack`."""
    return Packed(
        columns=(
            entry.number,
            entry.now_us,
            entry.revision,
            entry.seed,
            entry.epoch,
            entry.code_version,
            LEDGER_FORMAT,
            entry.lost,
        ),
        body=_packed(Body(inputs=entry.inputs, verdicts=entry.verdicts, plan=entry.plan)),
        checkpoint=None if entry.checkpoint is None else _packed(entry.checkpoint),
    )


def unpack(columns: Sequence[Any], *, body: bytes, checkpoint: bytes | None) -> PassEntry:
    """An entry from its columns, as `Packed` has them.

    Raises:
        ValueError: it has a format that this version does not know.
    """
    number, now_us, revision, seed, epoch, code_version, entry_format, lost = columns
    if entry_format != LEDGER_FORMAT:
        raise ValueError(f"pass {number} was written in format {entry_format}, this version reads {LEDGER_FORMAT}")
    found: Body = _BODY.decode(zlib.decompress(body))
    return PassEntry(
        number=number,
        now_us=now_us,
        revision=revision,
        seed=seed,
        epoch=epoch,
        code_version=code_version,
        lost=lost,
        inputs=found.inputs,
        verdicts=found.verdicts,
        plan=found.plan,
        checkpoint=None if checkpoint is None else _CHECKPOINT.decode(zlib.decompress(checkpoint)),
    )


def _packed(value: object) -> bytes:
    return zlib.compress(ENCODER.encode(value), _FAST)


_BODY: Final = decoder(Body)
_CHECKPOINT: Final = decoder(Checkpoint)
