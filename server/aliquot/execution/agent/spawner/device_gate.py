"""Device gate: denies the processes of a cgroup access to device files that were not granted.

Cgroup v2 has no device list file. Instead, a BPF program of type CGROUP_DEVICE runs at each open; it stays attached for
the life of the group.
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
"""Adds to the programs of parent groups, such as systemd's; each program can only deny."""
_CHARACTER_DEVICE = 2
_ATTRIBUTES_BYTES = 64
_ALLOWED_MAX = 30_000
"""Below the limit of 32,767 instructions per jump."""

_LOAD_WORD, _AND, _SET, _EXIT = 0x61, 0x54, 0xB7, 0x95
_IF_EQUAL, _IF_OTHER, _IF_ABOVE, _IF_BELOW = 0x15, 0x55, 0x25, 0xA5
"""Operations, see linux/bpf.h and linux/bpf_common.h."""

Gate = tuple[int, int, int, list[int]]
"""(major, first, last, allowed): of the character devices `major`:`first`..`last`, only the allowed minors may be
opened."""
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
    """Deny the group's processes all devices that the gates do not allow.

    Raises:
        OSError: the host does not support it.
    """
    if any(len(allowed) > _ALLOWED_MAX for _, _, _, allowed in gates):
        raise OSError(errno.E2BIG, f"a device gate allows at most {_ALLOWED_MAX} devices")
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
    """The BPF program. r2 = device type, r3 = major, r4 = minor; result r0: 1 = allow, 0 = deny."""
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
    """Call bpf(2); returns a descriptor or 0."""
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "device gates are not supported on this processor architecture")
    call = _Function(_ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall"))  # type: ignore[arg-type] # see dlopen(3)
    call.argtypes = [_Long, _Long, _Long, _Long]
    given = _buffer(attributes.ljust(_ATTRIBUTES_BYTES, b"\0"))
    result: int = call(number, command, _ctypes.addressof(given), _ATTRIBUTES_BYTES)
    if result < 0:
        raise OSError(errno.EPERM, "the kernel rejected the device program", "bpf")
    return result


def _buffer(data: bytes) -> "_ctypes.Array[_Byte]":
    kind = type("Buffer", (_ctypes.Array,), {"_length_": len(data), "_type_": _Byte})
    made: _ctypes.Array[_Byte] = kind(*data)
    return made


def _address(buffer: "_ctypes.Array[_Byte]") -> bytes:
    return _ctypes.addressof(buffer).to_bytes(8, "little")


def _words(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in values)
