"""The relay of readings: one row by which the leader tells the other servers what devices measure."""
