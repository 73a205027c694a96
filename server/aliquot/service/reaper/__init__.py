"""The reaper: holds what the store says against what agents have and what runs on devices, and repairs it."""
