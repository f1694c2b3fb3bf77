"""A peer of known behaviour in a process of its own: what the instrument is measured with."""
