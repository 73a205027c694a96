"""Time-series blocks: measurements of several devices over some time, encoded as bytes.

Each measure is a plane of whole numbers, devices x times, stored as differences from the first value of a row or from
the previous value, whichever takes fewer bits. Bytes of equal significance are grouped, and each plane is a deflate
block of its own.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aliquot.service.history.grids import Floats, GridSpan, Ints
from aliquot.service.history.measures import Measure

FORMAT: Final = 1
LEVEL: Final = 6
TIME_US: Final = 100_000
"""Resolution of times: 0.1 s."""
_HEAD: Final = struct.Struct("<qHHHB")
"""Start, number of measures, devices and times, and whether maxima are stored separately."""
_PLANE: Final = struct.Struct("<BBB")
"""Which values are present (nothing, all, some), the kind of difference, bytes per number."""
_NOTHING, _ALL, _SOME = range(3)
_LIMIT: Final = 2**51
"""Numbers beyond it are stored as it. A float holds all differences exactly. The seconds that 10,000 sessions waited
for half a day, as in an hour of a large job array, are 2**32 of the quantum."""

Bytes = NDArray[np.uint8]


class DamagedBlock(Exception):
    """The bytes of a block cannot be decoded."""


def encode(span: GridSpan, measures: Sequence[Measure], *, has_maxima: bool) -> bytes:
    """Encode measurements, rounding values to the quantum of their measure and times to `TIME_US`.

    Args:
        has_maxima: False if each value is a single reading.
    """
    start_us = int(span.at_us[0])
    offsets = (span.at_us - start_us) // TIME_US
    head = _HEAD.pack(start_us, len(measures), len(span.devices), len(offsets), has_maxima)
    planes = [_pack(offsets[None, :].astype(np.float64)), _pack(span.counts[None, :].astype(np.float64))]
    for index, measure in enumerate(measures):
        quanta = np.rint(span.mean[index] / measure.quantum)
        planes.append(_pack(quanta))
        if has_maxima and not measure.is_sum:
            planes.append(_pack(np.rint(span.maximum[index] / measure.quantum) - quanta))
    return _compressed([head, *planes])


def decode(body: bytes, measures: Sequence[Measure], devices: tuple[str, ...]) -> GridSpan:
    """The inverse of `encode`; measures that the block lacks are NaN.

    Raises:
        DamagedBlock: the bytes cannot be decoded.
    """
    try:
        return _decode(zlib.decompress(body), measures, devices)
    except (zlib.error, struct.error, ValueError, IndexError) as error:
        raise DamagedBlock(str(error)) from error


def _decode(body: bytes, measures: Sequence[Measure], devices: tuple[str, ...]) -> GridSpan:
    start_us, count, devices_count, times_count, has_maxima = _HEAD.unpack_from(body)
    if devices_count != len(devices):
        raise ValueError(f"a block of {devices_count} devices in a series of {len(devices)}")
    planes = _unpack(body, at=_HEAD.size, devices_count=devices_count, times_count=times_count)
    offsets, counts = next(planes)[0], next(planes)[0]
    mean = np.full((len(measures), devices_count, times_count), np.nan)
    maximum = np.full_like(mean, np.nan)
    for index, measure in enumerate(measures[:count]):
        quanta = next(planes)
        mean[index] = quanta * measure.quantum
        maximum[index] = (quanta + next(planes)) * measure.quantum if has_maxima and not measure.is_sum else mean[index]
    return GridSpan(
        devices=devices,
        at_us=start_us + offsets.astype(np.int64) * TIME_US,
        counts=counts.astype(np.int64),
        mean=mean,
        maximum=maximum,
    )


def _pack(plane: Floats) -> bytes:
    missing = np.isnan(plane)
    if missing.all():
        return _PLANE.pack(_NOTHING, 0, 0)
    some = np.packbits(missing).tobytes() if missing.any() else b""
    numbers = np.clip(_filled(plane, missing) if some else plane, -_LIMIT, _LIMIT).astype(np.int64)
    rows = numbers - np.concatenate([np.zeros((len(numbers), 1), np.int64), numbers[:, :-1]], axis=1)
    relative = np.concatenate([numbers[:, :1], numbers[:, 1:] - numbers[:, :1]], axis=1)
    choices = [_zigzag(relative), _zigzag(rows)]
    is_difference = int(_bits(choices[1]) <= _bits(choices[0]))
    chosen = choices[is_difference]
    top = int(chosen.max())
    width = next(width for width in (1, 2, 4, 8) if top < 1 << 8 * width)
    shuffled = chosen.astype(f"<u{width}").reshape(-1, 1).view(np.uint8).T
    head = _PLANE.pack(_SOME if some else _ALL, is_difference, width)
    return b"".join([head, some, np.ascontiguousarray(shuffled).tobytes()])


def _unpack(body: bytes, *, at: int, devices_count: int, times_count: int) -> Iterator[Floats]:
    """The planes in order; the first two have one row."""
    for index in range(2 + 2 * 256):
        shape = (1 if index < 2 else devices_count, times_count)
        size = shape[0] * times_count
        present, is_difference, width = _PLANE.unpack_from(body, at)
        at += _PLANE.size
        if present == _NOTHING:
            yield np.full(shape, np.nan)
            continue
        masked = -(-size // 8) if present == _SOME else 0
        missing = np.unpackbits(np.frombuffer(body, np.uint8, masked, at), count=size) if masked else None
        at += masked
        planes = np.frombuffer(body, np.uint8, size * width, at).reshape(width, size)
        at += size * width
        numbers = _unzigzag(np.ascontiguousarray(planes.T).view(f"<u{width}").reshape(shape).astype(np.int64))
        if is_difference:
            numbers = np.cumsum(numbers, axis=1)
        else:
            numbers[:, 1:] += numbers[:, :1]
        yield np.where(missing.reshape(shape), np.nan, numbers) if missing is not None else numbers.astype(np.float64)


def _filled(plane: Floats, missing: NDArray[Any]) -> Floats:
    """Replace missing values by the previous one, which compresses best."""
    last = np.maximum.accumulate(np.where(missing, 0, np.arange(plane.shape[1])), axis=1)
    return np.nan_to_num(np.take_along_axis(plane, last, axis=1))


def _zigzag(numbers: Ints) -> Ints:
    return (numbers << 1) ^ (numbers >> 63)


def _unzigzag(numbers: Ints) -> Ints:
    return (numbers >> 1) ^ -(numbers & 1)


def _bits(numbers: Ints) -> float:
    """Estimated size in bits: the entropy of the low bytes plus the higher bits."""
    found = np.bincount((numbers & 0xFF).ravel(), minlength=256)
    found = found[found > 0]
    return float(-(found * np.log2(found / numbers.size)).sum() + np.log2(1 + (numbers >> 8)).sum())


def _compressed(parts: Sequence[bytes]) -> bytes:
    """Compress the parts, each as a deflate block with its own Huffman code."""
    packer = zlib.compressobj(LEVEL)
    done = [packer.compress(part) + packer.flush(zlib.Z_BLOCK) for part in parts]
    return b"".join([*done, packer.flush()])
