"""CUDA probe: a program that prints the GPUs a process can see, or how fast they are, by CUDA's driver library.

It needs only Python.

    cuda_probe.py look          print what is visible
    cuda_probe.py hold BYTES    allocate memory on the first visible device, print the same, and hold it until SIGTERM
    cuda_probe.py bandwidth     copy memory to, on and from every visible device; exit code 1 if one is slow or fails

Output of the first two, one line of JSON: {"error": text or null, "devices": [{"uuid", "name", "memory_bytes"}],
"device_files": [number, ...], "held_bytes": number}. `device_files` are the N of /dev/nvidiaN that can be opened.
"""

import ctypes
import glob
import json
import os
import re
import signal
import sys
import time

NO_DEVICE = 100
"""CUDA_ERROR_NO_DEVICE: no device is visible, which is not a failure here."""


COPY_BYTES = 64 << 20
COPIES = 5
LINK_GB_S_MIN = 1.0
"""10^9 bytes per second between host and device. PCIe 3.0 with a single lane has 0.98."""
MEMORY_GB_S_MIN = 20.0
"""Within the device's memory, counting the bytes copied; the slowest GPUs and slices in use have more than 40."""


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

    def bandwidths(self, index: int) -> tuple[float, float, float]:
        """10^9 bytes per second to, from and on a device: the best of `COPIES` copies of `COPY_BYTES`.

        Raises:
            CudaError: a call failed, or other bytes came back.
        """
        context, host = ctypes.c_void_p(), ctypes.c_void_p()
        one, other = ctypes.c_uint64(), ctypes.c_uint64()
        size = ctypes.c_size_t(COPY_BYTES)
        handle = self._handle(index)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self._call("cuCtxSetCurrent", context)
        self._call("cuMemAllocHost_v2", ctypes.byref(host), size)
        self._call("cuMemAlloc_v2", ctypes.byref(one), size)
        self._call("cuMemAlloc_v2", ctypes.byref(other), size)
        pattern = bytes(range(256)) * (COPY_BYTES // 256)
        ctypes.memmove(host, pattern, COPY_BYTES)
        there = self._rate("cuMemcpyHtoD_v2", one, host, size)
        inside = self._rate("cuMemcpyDtoD_v2", other, one, size)
        ctypes.memset(host, 0, COPY_BYTES)
        back = self._rate("cuMemcpyDtoH_v2", host, other, size)
        if ctypes.string_at(host, COPY_BYTES) != pattern:
            raise CudaError("other bytes came back than were copied to it")
        self._call("cuMemFree_v2", one)
        self._call("cuMemFree_v2", other)
        self._call("cuMemFreeHost", host)
        self._call("cuDevicePrimaryCtxRelease_v2", handle)
        return there, back, inside

    def _rate(self, function: str, *arguments: object) -> float:
        best_s = float("inf")
        for _ in range(COPIES):
            began = time.perf_counter()
            self._call(function, *arguments)
            self._call("cuCtxSynchronize")
            best_s = min(best_s, time.perf_counter() - began)
        return COPY_BYTES / best_s / 1e9

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


def bandwidth() -> int:
    """Print a line for each visible device; returns the exit code. Without CUDA nothing is checked, and it is 0."""
    try:
        library = Cuda()
    except OSError:
        print("aliquot: preflight: there is no CUDA here, so nothing was checked")
        return 0
    except (AttributeError, CudaError) as error:
        print(f"aliquot: preflight: CUDA fails: {error}")
        return 1
    if not library.count:
        print("aliquot: preflight: no CUDA device is visible, so nothing was checked")
    return max([_measured(library, index) for index in range(library.count)], default=0)


def _measured(cuda: Cuda, index: int) -> int:
    try:
        name = cuda.device(index)["name"]
        there, back, inside = cuda.bandwidths(index)
    except (AttributeError, CudaError) as error:
        print(f"aliquot: preflight: device {index} fails: {error}")
        return 1
    is_slow = min(there, back) < LINK_GB_S_MIN or inside < MEMORY_GB_S_MIN
    needs = f"; too slow: at least {LINK_GB_S_MIN:g}, {LINK_GB_S_MIN:g} and {MEMORY_GB_S_MIN:g} are needed"
    rates = f"{there:.1f} GB/s to it, {back:.1f} from it, {inside:.1f} on it"
    print(f"aliquot: preflight: device {index} ({name}): {rates}{needs if is_slow else ''}")
    return int(is_slow)


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
    if words[0] == "bandwidth":
        sys.exit(bandwidth())
    hold_bytes = int(words[1]) if words[0] == "hold" else 0
    print(json.dumps(inspect(hold_bytes=hold_bytes)), flush=True)
    while hold_bytes:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
