"""Administration: policy, orchestration and backups."""
