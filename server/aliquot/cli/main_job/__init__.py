"""The main job: a server of its own, twelve sessions on a demo cluster, each step checked against live processes."""
