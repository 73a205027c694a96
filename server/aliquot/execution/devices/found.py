"""What this machine has to offer."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from aliquot.execution.devices.demo import demo_sources
from aliquot.execution.devices.node_devices import NodeSource, machine_source
from aliquot.execution.devices.nvml import NvmlPlugin
from aliquot_schema.devices import Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The accelerators of this machine, and a line about them for people."""

    gpus: tuple[Device, ...]
    """Empty: a demo cluster takes their place."""
    words: str

    def nodes(self, *, host: Mapping[str, object] | None = None) -> tuple[NodeSource, ...]:
        """The nodes to run agents on: the one with the real GPUs, or the demo cluster.

        Args:
            host: configuration of the host plugin, for the real ones.
        """
        return (machine_source(host=host),) if self.gpus else demo_sources()


def found() -> Found:
    """Look for real GPUs through NVML, and let go of the driver again."""
    plugin = NvmlPlugin()
    try:
        gpus = plugin.discover()
        driver = plugin.attributes().get("nvidia.driver_version", "of unknown version")
    finally:
        plugin.close()
    if gpus:
        return Found(gpus=gpus, words=f"{_counted(gpus)} through NVML (driver {driver})")
    demo = "a demo cluster of two mock nodes with 8 H100 each takes their place"
    return Found(gpus=(), words=f"no real GPUs: {plugin.diagnosis}; {demo}")


def _counted(gpus: tuple[Device, ...]) -> str:
    models = Counter(gpu.model for gpu in gpus)
    return ", ".join(f"{count} x {model}" for model, count in models.items())
