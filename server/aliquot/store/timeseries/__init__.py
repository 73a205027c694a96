"""Time series of devices and the queue: columnar blocks in their own database, written by a thread of their own."""
