"""Pulls: the command lines that fetch a session's image before it starts, the credentials for it, and what a failed one
means.

The shim runs them in the job's place, see `spawner.pull`. Apptainer fetches images itself when the job starts.
"""

import time
from base64 import b64encode
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import orjson

from aliquot.execution.agent.isolation.containers import PullCommands, Runtime
from aliquot_schema.cluster.launching import (
    IMAGE_FAILED,
    IMAGE_NO_SPACE,
    IMAGE_NOT_FOUND,
    IMAGE_UNAUTHORIZED,
    REGISTRY_UNREACHABLE,
    KernelPhase,
    KernelReport,
    PullProgress,
)
from aliquot_schema.ids import KernelId
from aliquot_schema.resources.confinement import IMAGE_LABEL, image_label
from aliquot_schema.resources.leases import EndEvidence

CREDENTIALS: Final = ".registry-credentials.json"
"""File among the kernel's secret files, removed as soon as the image is there."""
PULL_LIMIT_MS: Final = 3_600_000
_LOCAL: Final = "localhost"
"""Registry in the names of images that were made on the node."""
_TEXT_MAX: Final = 600

_MEANINGS: Final = (
    (IMAGE_NO_SPACE, ("no space left on device", "disk quota exceeded", "not enough space")),
    (
        IMAGE_UNAUTHORIZED,
        (
            "unauthorized",
            "authentication required",
            "denied",
            "invalid username/password",
            "no basic auth",
            "forbidden",
        ),
    ),
    (
        IMAGE_NOT_FOUND,
        ("manifest unknown", "name unknown", "not found", "not known to registry", "did not resolve to an alias"),
    ),
    (
        REGISTRY_UNREACHABLE,
        (
            "connection refused",
            "connection reset",
            "no such host",
            "name resolution",
            "no route to host",
            "unreachable",
            "timeout",
            "deadline exceeded",
            "it took longer than",
            "http response to https client",
            "x509",
            "certificate",
            "eof",
            "bad gateway",
            "service unavailable",
            "internal server error",
        ),
    ),
)
"""Failure code -> parts of the runtime's messages, in lower case; the first that is found counts."""


def pull_commands(
    runtime: Runtime, program: str, image: str, *, credentials: Path | None, insecure: Collection[str]
) -> PullCommands | None:
    """The command lines that fetch an image; None for a runtime that fetches it when the job starts.

    Args:
        credentials: file with credentials; None = those that the account has stored.
        insecure: registries, like `host:port`, that may be reached without TLS, as those on loopback may.
    """
    match runtime:
        case Runtime.APPTAINER:
            return None
        case Runtime.DOCKER:  # its daemon decides which registries are insecure
            size = [program, "image", "inspect", "--format={{.Size}}", image]
            return PullCommands(has=size, fetch=[program, "pull", image], size=size)
        case Runtime.PODMAN:
            first = [program, "--log-level=error"]
            options = [] if credentials is None else [f"--authfile={credentials}"]
            if may_be_insecure(registry_of(image), insecure):
                options.append("--tls-verify=false")
            return PullCommands(
                has=[*first, "image", "exists", image],
                fetch=[*first, "pull", *options, image],
                size=[*first, "image", "inspect", "--format={{.Size}}", image],
            )


def registry_of(image: str) -> str:
    """The registry of an image, like `ghcr.io` or `localhost:5000`."""
    return image_label(image).removeprefix(IMAGE_LABEL).partition("/")[0]


def may_be_insecure(registry: str, allowed: Collection[str]) -> bool:
    """Whether a registry may be reached by plain HTTP, or with a certificate that is not trusted."""
    if registry in allowed:
        return True
    host = registry.rpartition(":")[0] if ":" in registry else registry
    if host == _LOCAL:
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def credentials_file(secret: str, image: str) -> bytes:
    """The content of a file of credentials, from one or from `user:password` for the image's registry."""
    text = secret.strip()
    if text.startswith("{") or ":" not in text or "\n" in text:
        return secret.encode(errors="surrogateescape")
    return orjson.dumps({"auths": {registry_of(image): {"auth": b64encode(text.encode()).decode()}}})


def progress_of(found: Mapping[str, Any] | None) -> PullProgress | None:
    """The progress in a shim's record."""
    if found is None:
        return None
    now_ms = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
    return PullProgress(
        ran_ms=max(now_ms - found["began_ms"], 0) if found["took_ms"] is None else found["took_ms"],
        bytes_done=found["bytes_done"],
        bytes_total=found["bytes_total"],
        layers_done=found["layers_done"],
        layers=found["layers"],
        size_bytes=found["size_bytes"],
        is_done=found["is_done"],
    )


def has_failed_pull(found: Mapping[str, Any]) -> bool:
    """Whether an exit record is that of a failed pull, so that the command was not started."""
    return bool(found.get("pull_failed"))


def failed_pull_report(kernel_id: KernelId, image: str, found: Mapping[str, Any]) -> KernelReport:
    """The report on a pull that has failed."""
    code, message = failure_of(image, str(found["message"]))
    return KernelReport(
        kernel_id=kernel_id,
        phase=KernelPhase.REFUSED,
        at_us=found["at_us"],
        evidence=EndEvidence.REFUSED,
        code=code,
        message=message,
    )


def failure_of(image: str, text: str) -> tuple[str, str]:
    """(code, message) of a failed pull.

    Args:
        text: the end of the runtime's output, or why it was ended.
    """
    lower, registry = text.lower(), registry_of(image)
    code = next((code for code, parts in _MEANINGS if any(part in lower for part in parts)), IMAGE_FAILED)
    if code == REGISTRY_UNREACHABLE and registry == _LOCAL:
        code = IMAGE_NOT_FOUND
    return code, f"{_what(code, image, registry, lower)}: {text.removeprefix('Error: ')[:_TEXT_MAX]}"


def _what(code: str, image: str, registry: str, text: str) -> str:
    if code == IMAGE_NO_SPACE:
        return f"the node has no space left for the image {image}; an administrator removes images that are not used"
    if code == IMAGE_UNAUTHORIZED:
        way = "name a secret with credentials by `--secret-file NAME=registry.json`"
        return f"the registry {registry} does not give out the image {image}; check its name, and {way}"
    if code == IMAGE_NOT_FOUND and registry == _LOCAL:
        return f"the image {image} is not on the node, and localhost is no registry; give the name with its registry"
    if code == IMAGE_NOT_FOUND:
        return f"the image {image} was not found in {registry}; check its name and its tag"
    if code == REGISTRY_UNREACHABLE and ("http response" in text or "x509" in text or "certificate" in text):
        return f"the registry {registry} has no trusted certificate; an administrator adds it to insecure-registries"
    if code == REGISTRY_UNREACHABLE:
        return f"the registry {registry} of the image {image} could not be reached; try again later"
    return f"the image {image} could not be fetched"
