"""The store of history: columnar blocks of measurements in a database of its own, written by a thread of its own."""
