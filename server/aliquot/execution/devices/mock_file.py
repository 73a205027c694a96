"""The file that describes mock accelerators."""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, StringConstraints, field_validator
from pydantic_core import PydanticCustomError

from aliquot.execution.devices.checked import Size, Table
from aliquot.execution.devices.plugin import DeviceFileError

_HOST_SLOTS: Final = ("cpu", "mem")
_PART: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)


class MockDevice(Table):
    """One device of the file; the order of the file gives the index."""

    mother_uuid: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$")]
    """The device's id; for a MIG slice, that of the device which it is cut from."""
    model_name: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    numa_node: int | None = Field(default=None, ge=-1)
    """-1, as the kernel writes it, or no key at all: not known."""
    subproc_count: int = Field(default=0, ge=0)
    """Streaming multiprocessors; 0 = not known."""
    memory_size: Size = Field(gt=0)
    is_mig_device: bool = False
    linked_to: list[str] = Field(default_factory=list)
    """Ids of devices that it reaches by a direct link, like NVLink."""


class NumberFormat(Table):
    """How amounts of a slot are written for people."""

    binary: bool = False
    round_length: int = Field(default=0, ge=0, le=9)


class SlotFormat(Table):
    """How a slot is shown."""

    display_unit: str
    human_readable_name: str
    number_format: NumberFormat = NumberFormat()


class MockDescription(Table):
    """A whole file."""

    slot_name: str
    """The prefix of the slots and of the devices' names: `cuda`."""
    device_plugin_name: Annotated[str, StringConstraints(min_length=1, max_length=100)]
    """The kind that is imitated: with `cuda` or `rocm` in it, jobs get this runtime's variables."""
    devices: Annotated[list[MockDevice], Field(min_length=1)]
    attributes: dict[str, str | int | float | bool] = Field(default_factory=dict)
    formats: dict[str, SlotFormat] = Field(default_factory=dict)
    """By the part of the slot's name after the dot: `device`, `shares`."""

    @field_validator("slot_name")
    @classmethod
    def _free_slot_name(cls, name: str) -> str:
        if name in _HOST_SLOTS or not _PART.fullmatch(name):
            words = {"name": repr(name), "taken": " or ".join(_HOST_SLOTS)}
            raise PydanticCustomError(
                "slot_name", "{name} is no slot name; use a-z, 0-9, - and _, not {taken}, as in 'cuda'", words
            )
        return name

    @field_validator("devices")
    @classmethod
    def _distinct(cls, devices: list[MockDevice]) -> list[MockDevice]:
        whole = [device.mother_uuid for device in devices if not device.is_mig_device]
        twice = sorted({uuid for uuid in whole if whole.count(uuid) > 1})
        if twice:
            words = {"uuids": ", ".join(twice)}
            raise PydanticCustomError("twice", "mother_uuid is there twice without is_mig_device: {uuids}", words)
        return devices


def read_mock_file(path: Path) -> MockDescription:
    """Read and check a file.

    Raises:
        DeviceFileError: it cannot be read, is no TOML, or says something that cannot be.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DeviceFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviceFileError(f"{path}: is no TOML: {error}") from None
    return MockDescription.checked(values, source=str(path))
