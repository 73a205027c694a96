"""C library functions, called through `_ctypes`: the full `ctypes` would cost each shim 250 KiB. All return an int."""

import _ctypes


class _Int(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "i"


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "L"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_PYTHONAPI
    _restype_ = _Int


_library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type] # None is the program itself, see dlopen(3)
prctl = _Function(_ctypes.dlsym(_library, "prctl"))
prctl.argtypes = [_Int, *[_Long] * 4]
setns = _Function(_ctypes.dlsym(_library, "setns"))
setns.argtypes = [_Int, _Int]
madvise = _Function(_ctypes.dlsym(_library, "madvise"))
madvise.argtypes = [_Long, _Long, _Int]
