"""Commands about the cluster: agents, GPUs, queue, usage, quotas and policy."""
