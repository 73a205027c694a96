"""Retention: how long what is over is kept, in memory and in the database."""

from aliquot.service.retention.in_memory import Retention as Retention
