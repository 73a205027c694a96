"""CUDA probe: a program that prints the GPUs a process can see, by CUDA's driver library; needs only Python.

    cuda_probe.py look          print what is visible
    cuda_probe.py hold BYTES    allocate memory on the first visible device, print the same, and hold it until SIGTERM

Output, one line of JSON: {"error": text or null, "devices": [{"uuid", "name", "memory_bytes"}], "device_files":
[number, ...], "held_bytes": number}. `device_files` are the N of /dev/nvidiaN that can be opened.
"""

import ctypes
import glob
import json
import os
import re
import signal
import sys

NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE: no device is visible, which is not a failure here."""


class CudaError(Exception):
    """A CUDA call failed; the message names the call and the code."""


class Cuda:
    """The driver library, initialised."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self.count = 0
        code = self._library.cuInit(0)
        if code == NO_DEVICE:
            return
        if code:
            raise CudaError(f"cuInit: {code}")
        count = ctypes.c_int()
        self._call("cuDeviceGetCount", ctypes.byref(count))
        self.count = count.value

    def device(self, index: int) -> dict[str, object]:
        """UUID, name and memory of a device."""
        name, uuid, size = ctypes.create_string_buffer(200), ctypes.create_string_buffer(16), ctypes.c_size_t()
        handle = self._handle(index)
        self._call("cuDeviceGetName", name, len(name), handle)
        self._call(self._newer("cuDeviceGetUuid_v2", "cuDeviceGetUuid"), uuid, handle)
        self._call("cuDeviceTotalMem_v2", ctypes.byref(size), handle)
        return {"uuid": _uuid_text(uuid.raw), "name": name.value.decode(errors="replace"), "memory_bytes": size.value}

    def take(self, size: int) -> None:
        """Allocate memory on the first device, until the end of the process."""
        context, place = ctypes.c_void_p(), ctypes.c_uint64()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._handle(0))
        self._call("cuCtxSetCurrent", context)
        self._call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))

    def _handle(self, index: int) -> ctypes.c_int:
        handle = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(handle), index)
        return handle

    def _newer(self, new: str, old: str) -> str:
        return new if hasattr(self._library, new) else old

    def _call(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code:
            raise CudaError(f"{function}: {code}")


def inspect(*, hold_bytes: int) -> dict[str, object]:
    """Everything that is visible, after allocating some memory."""
    seen: dict[str, object] = {"error": None, "devices": [], "device_files": _device_files(), "held_bytes": 0}
    try:
        cuda = Cuda()
        seen["devices"] = [cuda.device(index) for index in range(cuda.count)]
        if hold_bytes:
            cuda.take(hold_bytes)
            seen["held_bytes"] = hold_bytes
    except (OSError, AttributeError, CudaError) as error:
        seen["error"] = str(error)
    return seen


def _device_files() -> list[int]:
    numbers = []
    for path in glob.glob("/dev/nvidia[0-9]*"):
        try:
            os.close(os.open(path, os.O_RDWR))
        except OSError:
            continue
        numbers += [int(number) for number in re.findall(r"^/dev/nvidia(\d+)$", path)]
    return sorted(numbers)


def _uuid_text(raw: bytes) -> str:
    """A UUID as nvidia-smi writes it, without the `GPU-` prefix."""
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def main(words: list[str]) -> None:
    """Run the command line."""
    hold_bytes = int(words[1]) if words[0] == "hold" else 0
    print(json.dumps(inspect(hold_bytes=hold_bytes)), flush=True)
    while hold_bytes:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
