"""Alerting: rules open and close alerts, and notices are delivered to receivers and owners."""
