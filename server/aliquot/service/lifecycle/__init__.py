"""Lifecycle of sessions and kernels: grants, launch orders, reports, preemption, and registration of agents."""
