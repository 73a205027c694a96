"""History: time series of devices and the queue, and usage over time. It never blocks the durable state."""
