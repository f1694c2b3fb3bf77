"""Agents of known behaviour: the floors and the ceiling of the instrument."""
