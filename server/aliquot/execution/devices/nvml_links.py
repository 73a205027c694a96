"""Which GPUs are joined by NVLink."""

from collections.abc import Mapping
from typing import Any

from aliquot.execution.devices.nvml_driver import NvmlDriver
from aliquot_schema.ids import DeviceId


def linked_gpus(driver: NvmlDriver, handles: Mapping[DeviceId, Any]) -> dict[DeviceId, tuple[DeviceId, ...]]:
    """The NVLink peers of each GPU. Those that hang on NVSwitches all reach each other."""
    by_bus = {bus: id for id, handle in handles.items() if (bus := bus_id(driver, handle)) is not None}
    ends = {id: _link_ends(driver, handle) for id, handle in handles.items()}
    switched = {id for id, (_, on_switch) in ends.items() if on_switch}
    links: dict[DeviceId, tuple[DeviceId, ...]] = {}
    for id, (buses, _) in ends.items():
        peers = {by_bus[bus] for bus in buses if bus in by_bus} | (switched if id in switched else set())
        links[id] = tuple(peer for peer in handles if peer in peers and peer != id)
    return links


def bus_id(driver: NvmlDriver, handle: Any) -> str | None:
    """The PCI address as sysfs writes it (`0000:17:00.0`); NVML writes eight digits of domain, in upper case."""
    return _address(driver.ask("nvmlDeviceGetPciInfo_v3", handle))


def _link_ends(driver: NvmlDriver, handle: Any) -> tuple[set[str], bool]:
    """PCI addresses at the other ends of the active links, and whether one of them is a switch."""
    buses: set[str] = set()
    on_switch = False
    for link in range(driver.nvml.NVML_NVLINK_MAX_LINKS):
        active = driver.ask("nvmlDeviceGetNvLinkState", handle, link)
        if active is None:
            break
        if not active:
            continue
        kind = driver.ask("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link)
        on_switch = on_switch or kind == driver.nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH
        address = _address(driver.ask("nvmlDeviceGetNvLinkRemotePciInfo", handle, link))
        if address is not None:
            buses.add(address)
    return buses, on_switch


def _address(info: Any) -> str | None:
    if info is None:
        return None
    domain, _, rest = str(info.busId).lower().partition(":")
    return f"{domain.lstrip('0'):0>4}:{rest}" if rest else None
