"""NVML driver: initialises NVIDIA's library and maps its errors to messages."""

import importlib
from collections.abc import Iterator
from typing import Any, Final

_HINTS: Final = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": "no NVIDIA driver is installed here (libnvidia-ml.so.1 was not found)",
    "NVML_ERROR_DRIVER_NOT_LOADED": "the NVIDIA driver is installed, but its kernel module is not loaded",
    "NVML_ERROR_NO_PERMISSION": "no permission to use the NVIDIA driver; check the permissions of /dev/nvidia*",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": "the NVIDIA library and kernel module differ in version; reload the module",
}
_BROKEN: Final = {
    "NVML_ERROR_GPU_IS_LOST": "the GPU fell off the bus",
    "NVML_ERROR_RESET_REQUIRED": "the GPU needs a reset",
}


class NvmlUnavailable(Exception):
    """NVML cannot be used now, for the reason in the one-line message; normal on machines without NVIDIA GPUs."""


class NvmlDriver:
    """NVML, initialised. Queries return None where the driver or the GPU has no answer.

    Handles are opaque and belong to this object. NVML is reference-counted: several instances may exist.
    """

    def __init__(self) -> None:
        """Load and initialise the library.

        Raises:
            NvmlUnavailable: there is no usable driver.
        """
        try:
            self.nvml: Any = importlib.import_module("pynvml")
        except ImportError as error:
            raise NvmlUnavailable(f"the Python package nvidia-ml-py is not installed ({error})") from None
        self._hints = {getattr(self.nvml, name): message for name, message in _HINTS.items()}
        self._broken = {getattr(self.nvml, name): message for name, message in _BROKEN.items()}
        self._call("nvmlInit")

    def handles(self) -> Iterator[tuple[int, Any]]:
        """Index and handle of each GPU; the handle is None if the driver has none, as for a lost GPU.

        Raises:
            NvmlUnavailable: the driver was unloaded.
        """
        for index in range(self._call("nvmlDeviceGetCount")):
            yield index, self.ask("nvmlDeviceGetHandleByIndex", index)

    def ask(self, function: str, *arguments: Any) -> Any:
        """Call an NVML function; None if the driver or the GPU does not support it or fails."""
        try:
            return getattr(self.nvml, function)(*arguments)
        except (self.nvml.NVMLError, UnicodeDecodeError, AttributeError):
            return None

    def first(self, *calls: tuple[Any, ...]) -> Any:
        """The first answer among equivalent calls of newer and older drivers."""
        return next((answer for call in calls if (answer := self.ask(*call)) is not None), None)

    def health_fault(self, handle: Any) -> str | None:
        """Message if the GPU is lost or needs a reset, else None."""
        nvml = self.nvml
        for function, arguments in (
            (nvml.nvmlDeviceGetMemoryInfo, (handle,)),
            (nvml.nvmlDeviceGetTemperature, (handle, nvml.NVML_TEMPERATURE_GPU)),
            (nvml.nvmlDeviceGetPowerUsage, (handle,)),
        ):
            try:
                function(*arguments)
            except nvml.NVMLError as error:
                if error.value in self._broken:
                    return self._broken[error.value]
        return None

    def close(self) -> None:
        """Shut the library down."""
        self.ask("nvmlShutdown")

    def _call(self, function: str) -> Any:
        try:
            return getattr(self.nvml, function)()
        except self.nvml.NVMLError as error:
            message = self._hints.get(error.value) or f"the NVIDIA driver cannot be used: {error}"
            raise NvmlUnavailable(message) from None
