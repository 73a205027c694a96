"""Blocks: a stretch of measurements as bytes.

Every measure is a plane of whole numbers, devices x times, as values or as differences from one time to the next,
whichever says less; split into bytes of equal weight, and compressed with a code of its own.
"""

import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aliquot.service.history.grids import Floats, Ints, Stretch
from aliquot.service.history.measures import Measure

FORMAT: Final = 1
LEVEL: Final = 6
TIME_US: Final = 100_000
"""Times are kept to a tenth of a second."""
_HEAD: Final = struct.Struct("<qHHHB")
"""Start, measures, devices, times, whether there are maxima of their own."""
_PLANE: Final = struct.Struct("<BBB")
"""What is there (nothing, all, some), values or differences, bytes of each number."""
_NOTHING, _ALL, _SOME = range(3)
_LIMIT: Final = 2**30

Bytes = NDArray[np.uint8]


class DamagedBlock(Exception):
    """A block is not what was written."""


def encode(stretch: Stretch, measures: Sequence[Measure], *, has_maxima: bool) -> bytes:
    """The inverse of `decode`, but that numbers are rounded to their quanta and times to `TIME_US`.

    Args:
        has_maxima: off where every value is one reading.
    """
    start_us = int(stretch.at_us[0])
    offsets = (stretch.at_us - start_us) // TIME_US
    head = _HEAD.pack(start_us, len(measures), len(stretch.devices), len(offsets), has_maxima)
    planes = [_packed(offsets[None, :].astype(np.float64)), _packed(stretch.counts[None, :].astype(np.float64))]
    for index, measure in enumerate(measures):
        quanta = np.rint(stretch.mean[index] / measure.quantum)
        planes.append(_packed(quanta))
        if has_maxima and not measure.is_sum:
            planes.append(_packed(np.rint(stretch.maximum[index] / measure.quantum) - quanta))
    return _compressed([head, *planes])


def decode(body: bytes, measures: Sequence[Measure], devices: tuple[str, ...]) -> Stretch:
    """A block again; measures that it does not have are missing.

    Raises:
        DamagedBlock: it is not what was written.
    """
    try:
        return _decoded(zlib.decompress(body), measures, devices)
    except (zlib.error, struct.error, ValueError, IndexError) as error:
        raise DamagedBlock(str(error)) from error


def _decoded(body: bytes, measures: Sequence[Measure], devices: tuple[str, ...]) -> Stretch:
    start_us, count, wide, long, has_maxima = _HEAD.unpack_from(body)
    if wide != len(devices):
        raise ValueError(f"a block of {wide} devices, in a series of {len(devices)}")
    planes = _unpacked(body, at=_HEAD.size, wide=wide, long=long)
    offsets, counts = next(planes)[0], next(planes)[0]
    mean = np.full((len(measures), wide, long), np.nan)
    maximum = np.full_like(mean, np.nan)
    for index, measure in enumerate(measures[:count]):
        quanta = next(planes)
        mean[index] = quanta * measure.quantum
        maximum[index] = (quanta + next(planes)) * measure.quantum if has_maxima and not measure.is_sum else mean[index]
    return Stretch(
        devices=devices,
        at_us=start_us + offsets.astype(np.int64) * TIME_US,
        counts=counts.astype(np.int64),
        mean=mean,
        maximum=maximum,
    )


def _packed(plane: Floats) -> bytes:
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
    width = 1 if (top := int(chosen.max())) < 1 << 8 else 2 if top < 1 << 16 else 4
    shuffled = chosen.astype(f"<u{width}").reshape(-1, 1).view(np.uint8).T
    head = _PLANE.pack(_SOME if some else _ALL, is_difference, width)
    return b"".join([head, some, np.ascontiguousarray(shuffled).tobytes()])


def _unpacked(body: bytes, *, at: int, wide: int, long: int) -> Iterator[Floats]:
    """The planes in their order; the first two have one row."""
    for index in range(2 + 2 * 256):
        shape = (1 if index < 2 else wide, long)
        size = shape[0] * long
        there, is_difference, width = _PLANE.unpack_from(body, at)
        at += _PLANE.size
        if there == _NOTHING:
            yield np.full(shape, np.nan)
            continue
        masked = -(-size // 8) if there == _SOME else 0
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
    """Where nothing was measured, what was measured before: it costs least."""
    last = np.maximum.accumulate(np.where(missing, 0, np.arange(plane.shape[1])), axis=1)
    return np.nan_to_num(np.take_along_axis(plane, last, axis=1))


def _zigzag(numbers: Ints) -> Ints:
    return (numbers << 1) ^ (numbers >> 63)


def _unzigzag(numbers: Ints) -> Ints:
    return (numbers >> 1) ^ -(numbers & 1)


def _bits(numbers: Ints) -> float:
    """About how many bits these take, if each byte's code is as long as it is rare."""
    found = np.bincount((numbers & 0xFF).ravel(), minlength=256)
    found = found[found > 0]
    return float(-(found * np.log2(found / numbers.size)).sum() + np.log2(1 + (numbers >> 8)).sum())


def _compressed(parts: Sequence[bytes]) -> bytes:
    """Each part with a code of its own."""
    packer = zlib.compressobj(LEVEL)
    done = [packer.compress(part) + packer.flush(zlib.Z_BLOCK) for part in parts]
    return b"".join([*done, packer.flush()])
