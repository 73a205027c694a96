"""Isolation of kernels: cgroup limits, the sandbox, device files and secrets."""
