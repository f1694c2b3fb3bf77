"""An agent behind a sound card: the rig speaks through an output and listens on an input."""
