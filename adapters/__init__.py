"""Systems under test: wire protocols without I/O, thin drivers, and simulated agents."""
