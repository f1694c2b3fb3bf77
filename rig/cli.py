"""The command line: `rig`. Exit codes: 0 done; 1 a gate was not met or a limit reached; 2 usage,
configuration or input; 3 finished, but some cases ended in infrastructure errors; 70 a defect of
the rig itself; 130 interrupted; 141 the reader of the output went away (`rig ... | head`)."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

import click

# Only the guard may be imported here: a foreign `audio` must be noticed before ours is asked for.
from rig.guard import name_conflict

# Name: module, and the line that `rig --help` shows without importing the module.
_COMMANDS = {
    "demo": ("rig.commands.demo", "The whole job on the built-in agents, with nothing to set up."),
    "generate": ("rig.commands.generate", "Have a language model write conversations for a suite."),
    "new-suite": ("rig.commands.new_suite", "Write a small suite of your own, to be changed."),
    "schema": ("rig.commands.schema", "JSON Schemas of the files that you write or read."),
    "build": ("rig.commands.build", "Validate a suite and render its user audio."),
    "run": ("rig.commands.run", "Play the cases of a built suite against a system."),
    "inspect": ("rig.commands.inspect", "Show one case: spans, window, numbers, verdict."),
    "score": ("rig.commands.score", "Recordings to measurements and verdicts."),
    "rescore": ("rig.commands.rescore", "Score recordings that others made."),
    "field": ("rig.commands.field", "Field study of two-channel recordings of calls."),
    "sweep": ("rig.commands.sweep", "Decide again over grids of thresholds and VAD settings."),
    "judge": ("rig.commands.judge", "Persona adherence and conflict labels by a language model."),
    "sample": ("rig.commands.sample", "Blinded samples for human validation, a page an annotator."),
    "agree": ("rig.commands.agree", "Answers of annotators against verdicts, targets and judges."),
    "compare": ("rig.commands.compare", "Effects, systems, roles and trials, with paired tests."),
    "gate": ("rig.commands.gate", "Hold a run against limits, for CI: exit code, JUnit, summary."),
    "definitions": ("rig.commands.definitions", "Figures of other benchmarks, beside ours."),
    "manifest": ("rig.commands.manifest", "Recordings of other benchmarks, as a rescore manifest."),
    "floors": ("rig.commands.floors", "What agents of known behaviour score on a whole suite."),
    "report": ("rig.commands.report", "Write one self-contained HTML page."),
    "check": ("rig.commands.check", "One short session that proves key, rate and audio both "
                                    "ways."),
    "selftest": ("rig.commands.selftest", "Agents of known latency: does the instrument recover "
                                          "the truth?"),
    "cascade": ("rig.commands.cascade", "Serve the built-in voice agent to any client, on this "
                                        "machine."),
    "conditions": ("rig.commands.conditions", "List the line conditions of a run, or hear them."),
    "adapters": ("rig.commands.adapters", "List the systems that can be tested and their "
                                          "settings."),
    "worker": ("rig.commands.worker", "List local models, and what this machine lacks for one."),
    "prices": ("rig.commands.prices", "List what sessions cost, as far as it is known."),
    "engines": ("rig.commands.engines", "List the speech engines and their settings."),
    "devices": ("rig.commands.devices", "List the sound devices of this machine."),
    "calibrate": ("rig.commands.calibrate", "Bias of the detected edges on a suite's own speech."),
    "calibrate-card": ("rig.commands.calibrate_card", "Measure the round trip of a sound card."),
    "doctor": ("rig.commands.doctor", "Check that everything needed works, and how to mend it."),
}
_BUG_EXIT_CODE = 70
"""A crash must not look like a gate that was not met (1); 70 is EX_SOFTWARE of sysexits.h."""
_PIPE_EXIT_CODE = 141
"""What a shell says of a program that SIGPIPE ended: not 0, for a gate may not have been met."""


class _LazyGroup(click.Group):
    """Imports a subcommand when it is used, so that `rig --help` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(
        self, ctx: click.Context, cmd_name: str  # noqa: ARG002
    ) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter  # noqa: ARG002
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in _COMMANDS.items()])

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
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever called (`>&-`)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            setattr(sys, name, io.TextIOWrapper(io.FileIO(nowhere, "w"), encoding="utf-8",
                                                write_through=True))
    for stream in (sys.stdout, sys.stderr):
        # A terminal of another encoding shows a name spelled out, not a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    conflict = name_conflict()
    if conflict is not None:
        return _fail(conflict, 2)
    from audio.errors import RigError

    try:
        result: Any = app.main(args=args, prog_name="rig", standalone_mode=False)
        # At the end of the interpreter a failure would be no error of ours.
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.UsageError as error:
        message = error.format_message()
        # click does not say whose option lacks its value.
        command = (error.ctx.command_path if error.ctx is not None
                   else f"rig {args[0]}" if args and args[0] in _COMMANDS else None)
        if command is not None:
            message += f" (see: {command} --help)"
        return _fail(message, 2, debug)
    except click.ClickException as error:
        return _fail(error.format_message(), 2, debug)
    except RigError as error:
        return _fail(str(error), error.exit_code, debug)
    except (BrokenPipeError, SystemExit):
        # click and rich exit with 1 where a pipe broke; nothing else here raises SystemExit.
        _drop_output()
        return _PIPE_EXIT_CODE
    except OSError as error:
        _drop_output()
        name = "" if error.filename is None else f" {str(error.filename)[:200]!r}"
        return _fail(f"cannot read or write{name}: {error.strerror or error}", 2, debug)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except Exception as error:  # noqa: BLE001 - the outermost edge: reported, and never exit code 1
        last = traceback.extract_tb(error.__traceback__)[-1]
        return _fail(f"defect of the rig: {type(error).__name__}: {error} at "
                     f"{Path(last.filename).name}:{last.lineno}; --debug shows where",
                     _BUG_EXIT_CODE, debug)


def _drop_output() -> None:
    """What could not be written is tried again at the end of the interpreter: let it go nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _fail(message: str, code: int, debug: bool = False) -> int:
    """One line on standard error, after the traceback of the current exception with `debug`."""
    if debug:
        traceback.print_exc()
    from rig.wording import printable

    line = printable(" ".join(message.split()))
    sys.stderr.write(f"rig: error: {line}\n")
    return code


def script() -> None:
    """Entry point of the installed `rig`."""
    code = main()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()  # an error ends `main` before that
    if callable(signal.getsignal(signal.SIGINT)):
        # All is told and kept: a further Ctrl-C ends what is left of this process, untold.
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    sys.exit(code)


if __name__ == "__main__":
    script()
