"""Ledger encoding: entries to rows and back, and the hash chain over them.

Bodies and checkpoints are JSON, zlib-compressed. Encoding runs outside of the writer's thread and in pieces, because
checkpoints are large.

hash = SHA-256(previous hash + JSON array of the columns + SHA-256 of the checkpoint's body, if any + the entry's body).
"""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, Row, select

from aliquot.core.model.plan import Plan
from aliquot.service.ledger.entries import LEDGER_FORMAT, Checkpoint, Inputs, PassEntry, VerdictChange
from aliquot.store.hash_chain import ChainBroken
from aliquot.store.ledger.tables import CHAINS, CHECKPOINTS, PASSES
from aliquot.store.mapping import ENCODER, PREEMPT_IN_POLICY, RenamedField, decoder

_FAST: Final = 1
"""zlib level: compresses to a quarter of the size in a tenth of the default level's time."""

_PIECE: Final = 100
"""Items of a list that are encoded in one call."""


class EntryBody(Struct, frozen=True, kw_only=True):
    """The part of an entry without columns of its own."""

    inputs: Inputs
    verdicts: tuple[VerdictChange, ...]
    plan: Plan


class EncodedEntry(Struct, frozen=True, kw_only=True):
    """An encoded entry without its chain hashes."""

    columns: tuple[Any, ...]
    """Number, now_us, revision, seed, epoch, code_version, format, lost."""
    body: bytes
    checkpoint: bytes | None

    @property
    def checkpoint_hash(self) -> bytes | None:
        """SHA-256 of the checkpoint's body."""
        return None if self.checkpoint is None else hashlib.sha256(self.checkpoint).digest()


def pack(entry: PassEntry) -> EncodedEntry:
    """The inverse of `unpack`."""
    return EncodedEntry(
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
        body=_compressed(EntryBody(inputs=entry.inputs, verdicts=entry.verdicts, plan=entry.plan)),
        checkpoint=None if entry.checkpoint is None else _compressed(entry.checkpoint),
    )


def unpack(columns: Sequence[Any], *, body: bytes, checkpoint: bytes | None) -> PassEntry:
    """Decode an entry; `columns` as in `EncodedEntry`.

    Raises:
        ValueError: the entry has another format.
    """
    number, now_us, revision, seed, epoch, code_version, entry_format, lost = columns
    if entry_format != LEDGER_FORMAT:
        raise ValueError(f"pass {number} was written in format {entry_format}, this version reads {LEDGER_FORMAT}")
    found: EntryBody = _BODY.decode(zlib.decompress(body))
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


def _compressed(value: Struct) -> bytes:
    packer = zlib.compressobj(_FAST)
    return b"".join((*map(packer.compress, _pieces(value)), packer.flush()))


def _pieces(value: Struct) -> Iterator[bytes]:
    """The JSON of a record in pieces. Encoding a long queue in one call would hold the interpreter lock for tenths of a
    second, and the event loop would stand still.
    """
    before = "{"
    for name in value.__struct_encode_fields__:
        yield f'{before}"{name}":'.encode()
        before = ","
        part = getattr(value, name)
        if isinstance(part, Inputs | Plan):
            yield from _pieces(part)
        elif isinstance(part, tuple) and len(part) > _PIECE:
            yield from _joined(part, tuple, b"[", b"]")
        elif isinstance(part, Mapping) and len(part) > _PIECE:
            yield from _joined(part.items(), dict, b"{", b"}")
        else:
            yield ENCODER.encode(part)
    yield b"}"


def _joined(items: Iterable[Any], kind: Callable[[Iterable[Any]], object], start: bytes, end: bytes) -> Iterator[bytes]:
    coming = iter(items)
    while some := list(islice(coming, _PIECE)):
        yield start
        yield ENCODER.encode(kind(some))[1:-1]
        start = b","
    yield end


FOREIGN_USAGE_IN_PASS: Final = RenamedField("external", "foreign_usage", after=r"(?=null|\[)")
_BODY: Final = decoder(EntryBody, renamed=[FOREIGN_USAGE_IN_PASS])
_CHECKPOINT: Final = decoder(Checkpoint, renamed=[PREEMPT_IN_POLICY])


LEDGER: Final = "ledger"
_PAGE: Final = 500


def entry_hash(previous: bytes, *, columns: Sequence[Any], body: bytes, checkpoint_hash: bytes | None) -> bytes:
    """The hash of one entry; `columns` as in `EncodedEntry`."""
    encoded = msgspec.json.encode(list(columns))
    return hashlib.sha256(previous + encoded + (checkpoint_hash or b"") + body).digest()


def check_link(row: Sequence[Any], *, previous: bytes) -> bytes:
    """Check one entry, a row in table order without the checkpoint, and return its hash.

    Raises:
        ChainBroken: a hash differs.
    """
    *columns, body, checkpoint_hash, prev_hash, stored = row
    expected = entry_hash(previous, columns=columns, body=body, checkpoint_hash=checkpoint_hash)
    if prev_hash != previous or stored != expected:
        raise ChainBroken(f"pass {columns[0]} of the ledger was changed, or passes before it are missing")
    return bytes(stored)


def verify(connection: Connection) -> int:
    """Verify the whole ledger; returns the number of entries.

    Raises:
        ChainBroken: at the first entry that differs, or if the ledger does not end where it should.
    """
    ends = connection.execute(select(CHAINS).where(CHAINS.c.id == LEDGER)).one_or_none()
    if ends is None:
        return 0
    count, number, previous = 0, 0, ends.first_hash
    for row in _rows(connection):
        stored = check_link(tuple(row), previous=previous)
        if row.checkpoint_hash is not None and row.checkpoint_hash != _checkpoint_hash(connection, row.number):
            raise ChainBroken(f"the checkpoint of pass {row.number} was changed, or is missing")
        count, number, previous = count + 1, row.number, stored
    if count and (ends.last_number, ends.last_hash) != (number, previous):
        raise ChainBroken(f"the ledger ends at pass {number}, and should end at {ends.last_number}")
    if not count and ends.first_hash != ends.last_hash:
        raise ChainBroken(f"the ledger is empty, and should end at pass {ends.last_number}")
    return count


def _checkpoint_hash(connection: Connection, number: int) -> bytes:
    body = connection.execute(select(CHECKPOINTS.c.body).where(CHECKPOINTS.c.number == number)).scalar_one_or_none()
    return hashlib.sha256(body or b"").digest()


def _rows(connection: Connection) -> Iterator[Row[Any]]:
    after = -1
    while rows := connection.execute(
        select(PASSES).where(PASSES.c.number > after).order_by(PASSES.c.number).limit(_PAGE)
    ).all():
        yield from rows
        after = rows[-1].number
