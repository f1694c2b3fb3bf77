"""The command line: `rig`. Exit codes: 0 done; 1 a gate was not met; 2 usage, configuration or
input; 3 finished, but some cases ended in infrastructure errors."""

from __future__ import annotations

import difflib
import importlib
import sys
from typing import Any

import click

from audio.errors import RigError
from rig.guard import check_names

_COMMANDS = {
    "demo": "rig.commands.demo",
    "build": "rig.commands.build",
    "run": "rig.commands.run",
    "inspect": "rig.commands.inspect",
    "score": "rig.commands.score",
    "rescore": "rig.commands.rescore",
    "sweep": "rig.commands.sweep",
    "report": "rig.commands.report",
    "adapters": "rig.commands.adapters",
    "doctor": "rig.commands.doctor",
}


class _LazyGroup(click.Group):
    """Imports a subcommand when it is used, so that `rig --help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(  # noqa: ARG002
        self, ctx: click.Context, cmd_name: str  # noqa: ARG002
    ) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[cmd_name]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            near = difflib.get_close_matches(args[0], _COMMANDS, n=1)
            raise click.UsageError(f"expected a command ({', '.join(_COMMANDS)}), got {args[0]!r}"
                                   + (f"; did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="duplexrig", prog_name="rig")
def app() -> None:
    """Play scheduled speech to a voice agent, record both sides on one clock, and say whether it
    listened, took its turn, backchannelled, interrupted, read back, yielded, continued or
    overlapped as it should.

    \b
    Example:
      rig demo
      rig build dsb-ifeval --out suite
      rig run suite --adapter long_endpoint --out runs/long_endpoint
      rig score runs/long_endpoint

    A traceback is shown with --debug, anywhere on the line.
    """


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit code is returned and, as a script, given to the shell."""
    args = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in args
    args = [a for a in args if a != "--debug"]
    try:
        check_names()
        result: Any = app.main(args=args, prog_name="rig", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        if debug:
            raise
        return _fail(error.format_message(), 2)
    except click.Abort:
        return _fail("interrupted", 130)
    except RigError as error:
        if debug:
            raise
        return _fail(str(error), error.exit_code)
    except BrokenPipeError:
        # The reader of our output has gone (`rig ... | head`): nothing is wrong with the run.
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        return _fail("interrupted", 130)


def _fail(message: str, code: int) -> int:
    line = " ".join(message.split())
    sys.stderr.write(f"rig: error: {line}\n")
    return code


def script() -> None:
    """Entry point of the installed `rig`."""
    sys.exit(main())


if __name__ == "__main__":
    script()
