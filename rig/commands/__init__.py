"""The subcommands of `rig`, grouped by what a person is doing."""
