"""The way to NVIDIA's driver, and words for why there is none."""

import importlib
from collections.abc import Iterator
from typing import Any, Final

_HINTS: Final = {
    "NVML_ERROR_LIBRARY_NOT_FOUND": "no NVIDIA driver is installed here (libnvidia-ml.so.1 was not found)",
    "NVML_ERROR_DRIVER_NOT_LOADED": "the NVIDIA driver is installed, but its kernel module is not loaded",
    "NVML_ERROR_NO_PERMISSION": "no permission to use the NVIDIA driver; look at the rights of /dev/nvidia*",
    "NVML_ERROR_LIB_RM_VERSION_MISMATCH": "the NVIDIA library and kernel module differ in version; reload the module",
}
_BROKEN: Final = {
    "NVML_ERROR_GPU_IS_LOST": "the GPU fell off the bus",
    "NVML_ERROR_RESET_REQUIRED": "the GPU needs a reset",
}


class NvmlUnavailable(Exception):
    """NVML cannot be used now; the message says why in one line. A normal state of a machine."""


class NvmlDriver:
    """NVML, initialised. Every question to a device may stay unanswered: None.

    Handles are opaque; they belong to this object. NVML counts its users: several of these may live at once.
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
        self._hints = {getattr(self.nvml, name): words for name, words in _HINTS.items()}
        self._broken = {getattr(self.nvml, name): words for name, words in _BROKEN.items()}
        self._call("nvmlInit")

    def handles(self) -> Iterator[tuple[int, Any]]:
        """The index and handle of each GPU; None where the driver gives none, as for a GPU that is lost.

        Raises:
            NvmlUnavailable: the driver went away.
        """
        for index in range(self._call("nvmlDeviceGetCount")):
            yield index, self.ask("nvmlDeviceGetHandleByIndex", index)

    def ask(self, function: str, *arguments: Any) -> Any:
        """Call a function of NVML; None where the driver or the card does not know the answer."""
        try:
            return getattr(self.nvml, function)(*arguments)
        except (self.nvml.NVMLError, UnicodeDecodeError, AttributeError):
            return None

    def first(self, *questions: tuple[Any, ...]) -> Any:
        """The first answer to questions that mean the same in newer and older drivers."""
        return next((answer for question in questions if (answer := self.ask(*question)) is not None), None)

    def breakage(self, handle: Any) -> str | None:
        """Whether the driver has lost this GPU or wants it reset, in words."""
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
        """Let go of the library."""
        self.ask("nvmlShutdown")

    def _call(self, function: str) -> Any:
        try:
            return getattr(self.nvml, function)()
        except self.nvml.NVMLError as error:
            words = self._hints.get(error.value) or f"the NVIDIA driver cannot be used: {error}"
            raise NvmlUnavailable(words) from None
