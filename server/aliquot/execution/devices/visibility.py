"""The variables by which accelerator runtimes are told what they may see."""

from collections.abc import Sequence
from typing import Final

from aliquot_schema.ids import DeviceId

FAMILIES: Final = ("cuda", "rocm")


def visible_devices(family: str | None, ids: Sequence[DeviceId]) -> dict[str, str]:
    """Variables that show a job exactly these devices, in this order; none at all when there are none.

    CUDA takes UUIDs, of MIG slices too, and numbers what it shows in the order of the list; a variable that is set
    and empty hides every device. `-1` would do the same, but reads like a device. The container toolkit's word for
    nothing is `void`. A family that is not known has no variables.

    Source: CUDA C++ Programming Guide, environment variables; NVIDIA Container Toolkit, user guide.
    """
    listed = ",".join(ids)
    if family == "cuda":
        return {
            "CUDA_VISIBLE_DEVICES": listed,
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "NVIDIA_VISIBLE_DEVICES": listed or "void",
        }
    if family == "rocm":
        return {"ROCR_VISIBLE_DEVICES": listed}
    return {}


def family_of(*names: str) -> str | None:
    """The runtime that the first telling name stands for: `CUDADevice` -> cuda."""
    return next((family for name in names for family in FAMILIES if family in name.casefold()), None)
