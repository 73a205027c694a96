"""History: what devices and the queue measured over time, and what was held by whom. Apart from the durable path."""
