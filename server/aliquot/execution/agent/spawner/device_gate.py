"""Keeps the processes of a cgroup from device files that are not theirs: the kernel runs a program at each open.

Cgroup v2 has no list of devices to write to. It asks a BPF program of the type CGROUP_DEVICE, which stays for as long
as the group does.
"""

import _ctypes
import errno
import os

_SYSCALL = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD = 5
_PROG_ATTACH = 8
_TYPE_CGROUP_DEVICE = 15
_ATTACH_CGROUP_DEVICE = 6
_ALLOW_MULTI = 2
"""Beside the programs of groups above, systemd's for one: each may only refuse."""
_CHARACTER_DEVICE = 2
_ATTRIBUTES_BYTES = 64
_ALLOWED_MAX = 30_000
"""A jump goes no further than 32,767 instructions."""

_LOAD_WORD, _AND, _SET, _EXIT = 0x61, 0x54, 0xB7, 0x95
_IF_EQUAL, _IF_OTHER, _IF_ABOVE, _IF_BELOW = 0x15, 0x55, 0x25, 0xA5
"""Operations, see linux/bpf.h and linux/bpf_common.h."""

Gate = tuple[int, int, int, list[int]]
"""(major, first, last, allowed): of the character devices of this major with a minor from `first` to `last`, only the
allowed ones may be opened."""
Instruction = tuple[int, int, int, int, int]
"""(operation, destination, source, offset, value)."""


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "B"


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "L"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_PYTHONAPI
    _restype_ = _Int


def close_devices(group: str, gates: list[Gate]) -> None:
    """Have the kernel refuse what the gates do not allow, to every process in the group from now on.

    Raises:
        OSError: it cannot be done here.
    """
    if any(len(allowed) > _ALLOWED_MAX for _, _, _, allowed in gates):
        raise OSError(errno.E2BIG, "too many devices for a gate")
    program = b"".join(map(_encoded, _program(gates)))
    code, licence = _buffer(program), _buffer(b"Apache-2.0\0")
    loaded = _bpf(
        _PROG_LOAD,
        _words(_TYPE_CGROUP_DEVICE, len(program) // 8) + _address(code) + _address(licence),
    )
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _bpf(_PROG_ATTACH, _words(folder, loaded, _ATTACH_CGROUP_DEVICE, _ALLOW_MULTI))
    finally:
        os.close(folder)
        os.close(loaded)


def _program(gates: list[Gate]) -> list[Instruction]:
    """r2 becomes the type of the device, r3 and r4 its major and minor; 1 in r0 lets it be opened, 0 does not."""
    checks: list[Instruction] = []
    for major, first, last, allowed in gates:
        refuse: list[Instruction] = [(_SET, 0, 0, 0, 0), (_EXIT, 0, 0, 0, 0)]
        granted: list[Instruction] = [
            (_IF_EQUAL, 4, 0, len(allowed) - place + 1, minor) for place, minor in enumerate(allowed)
        ]
        body = granted + refuse
        checks += [
            (_IF_OTHER, 3, 0, len(body) + 2, major),
            (_IF_BELOW, 4, 0, len(body) + 1, first),
            (_IF_ABOVE, 4, 0, len(body), last),
            *body,
        ]
    return [
        (_LOAD_WORD, 2, 1, 0, 0),
        (_AND, 2, 0, 0, 0xFFFF),
        (_LOAD_WORD, 3, 1, 4, 0),
        (_LOAD_WORD, 4, 1, 8, 0),
        (_IF_OTHER, 2, 0, len(checks), _CHARACTER_DEVICE),
        *checks,
        (_SET, 0, 0, 0, 1),
        (_EXIT, 0, 0, 0, 0),
    ]


def _encoded(instruction: Instruction) -> bytes:
    operation, destination, source, offset, value = instruction
    return bytes((operation, source << 4 | destination)) + offset.to_bytes(2, "little") + value.to_bytes(4, "little")


def _bpf(command: int, attributes: bytes) -> int:
    """bpf(2); the result, which is a descriptor or 0."""
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "no device gate for this kind of processor")
    call = _Function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall"))  # type: ignore[arg-type] # see dlopen(3)
    call.argtypes = [_Long, _Long, _Long, _Long]
    given = _buffer(attributes.ljust(_ATTRIBUTES_BYTES, b"\0"))
    result: int = call(number, command, _ctypes.addressof(given), _ATTRIBUTES_BYTES)
    if result < 0:
        raise OSError(errno.EPERM, "the kernel takes no device program", "bpf")
    return result


def _buffer(data: bytes) -> "_ctypes.Array[_Byte]":
    kind = type("Buffer", (_ctypes.Array,), {"_length_": len(data), "_type_": _Byte})
    made: _ctypes.Array[_Byte] = kind(*data)
    return made


def _address(buffer: "_ctypes.Array[_Byte]") -> bytes:
    return _ctypes.addressof(buffer).to_bytes(8, "little")


def _words(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)
