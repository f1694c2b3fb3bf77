"""Local models, each a script with an environment of its own: docs/workers.md."""
