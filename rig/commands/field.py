"""`rig field`: what recordings of real calls say."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from audio.errors import InputError
from rig.commands.field_pairwise import AskedPairs, Pairwise, pairwise_options
from rig.console import Output
from rig.field.call_csv import write_calls_csv
from rig.field.document import field_document
from rig.field.edges import Edges
from rig.field.groups import Grouping, read_groups
from rig.field.measures import CallMeasures, FieldSettings, Skipped
from rig.field.pictures import write_pictures
from rig.field.privacy import errors_without_names, without_names
from rig.field.recognise import find_recogniser
from rig.field.run import measure_all
from rig.field.sources import CallSource, ChannelMap, channel_map, find_calls, named
from rig.field.tables import print_field, write_csv
from rig.field.words import with_words
from rig.finite_option import Finite
from rig.outputs import check_outputs
from rig.report.field_page import write_field_page
from rig.settings import default_jobs, detector_settings
from rig.store import make_folder


@click.command("field")
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--caller-channel", metavar="left|right|0|1",
              help="The caller's channel. Without a map left is taken, with a warning.")
@click.option("--agent-channel", metavar="left|right|0|1", help="The agent's channel.")
@click.option("--pair", "pairs", nargs=2, multiple=True, metavar="CALLER AGENT",
              type=click.Path(path_type=Path),
              help="A call in two mono files; may be repeated. In a folder, files whose names "
                   "differ only in caller and agent are paired by themselves.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Detector setting (vad_threshold, vad_min_silence_ms, ...); may be repeated.")
@click.option("--yield-silence", type=Finite(0, 60, min_open=True), default=1.0,
              show_default=True, metavar="SECONDS",
              help="Caller silence that makes a yield point.")
@click.option("--transcripts", type=click.Path(path_type=Path), metavar="DIR",
              help="Folder of words files, CALL.words.json or CALL.words.csv. Without it they are "
                   "looked for beside the recordings.")
@click.option("--recognise", metavar="offline|MODEL",
              help="Hear the words of calls without a words file: offline, with the recogniser of "
                   "the default install; else a Whisper model, by folder or by name (extra "
                   "whisper). Marked as recognised.")
@click.option("--prosody", is_flag=True,
              help="Also how the agent speaks: pitch range, pauses, energy, spectrum. Pitch and "
                   "spectrum need the extra prosody.")
@click.option("--edges", type=click.Choice(["refined", "detector"]), default="refined",
              show_default=True,
              help="Where speech begins and ends: as the sound tells around each edge, or as the "
                   "detector says, less its measured bias.")
@click.option("--metadata", type=click.Path(path_type=Path), metavar="CSV",
              help="Facts of each call; its column 'file' names the recording.")
@click.option("--group-by", metavar="COLUMN", help="A column of --metadata: a table a value.")
@click.option("--csv", "csv_path", type=click.Path(path_type=Path), metavar="FILE",
              help="Also write one line a turn.")
@click.option("--calls-csv", "calls_path", type=click.Path(path_type=Path), metavar="FILE",
              help="Also write one line a call.")
@click.option("--html", "html_path", type=click.Path(path_type=Path), metavar="FILE",
              help="Also write the study as one page.")
@click.option("--pictures", "pictures_dir", type=click.Path(path_type=Path), metavar="DIR",
              help="Also draw the timeline of each call, one SVG a call.")
@click.option("--no-transcript", is_flag=True,
              help="No word of a call in anything that is written or printed, and no cache; what "
                   "is measured on words stays.")
@click.option("--no-audio", is_flag=True,
              help="No sound, no waveform and nothing to make sound of in anything that is "
                   "written: no cache.")
@click.option("--hide-names", is_flag=True, help="Numbers in the place of the recordings' names.")
@click.option("--cache", "cache_dir", type=click.Path(path_type=Path), default=Path("field-cache"),
              show_default=True, metavar="DIR",
              help="What was read of each file, by its content; a study that was broken off goes "
                   "on with it. May be deleted.")
@click.option("--no-cache", is_flag=True, help="Keep nothing.")
@click.option("--no-sensitivity", is_flag=True,
              help="Leave out the ranges over detector settings.")
@click.option("--fail-on-gate", is_flag=True,
              help="Exit 1 when a gate is not met; without evidence none is.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes. Default: the cores.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
@pairwise_options
def command(**given: Any) -> int:
    """Field study of two-channel recordings: latency, interruptions, turn-taking, talk ratio, and
    what is wrong with the recordings.

    PATH is a recording or a folder. Nothing leaves this machine, but what --pairwise sends.

    \b
    Example:
      rig field calls/ --caller-channel left
      rig field call.wav --agent-channel 1 --json
      rig field --pair caller.wav agent.wav --csv turns.csv
      rig field calls/ --caller-channel left --html study.html --pictures timelines/
    """
    return _Command(**given).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command:
    """The options as they were given, and the steps of the command in their order."""

    paths: tuple[Path, ...]
    caller_channel: str | None
    agent_channel: str | None
    pairs: tuple[tuple[Path, Path], ...]
    settings: tuple[str, ...]
    yield_silence: float
    transcripts: Path | None
    recognise: str | None
    prosody: bool
    edges: Edges
    metadata: Path | None
    group_by: str | None
    csv_path: Path | None
    calls_path: Path | None
    html_path: Path | None
    pictures_dir: Path | None
    no_transcript: bool
    no_audio: bool
    hide_names: bool
    cache_dir: Path
    no_cache: bool
    no_sensitivity: bool
    fail_on_gate: bool
    jobs: int | None
    as_json: bool
    pairwise: Pairwise | None

    def run(self) -> int:
        """The exit code."""
        self._check_usage()
        channels = channel_map(self.caller_channel, self.agent_channel)
        calls = find_calls(self.paths, self.pairs, channels)
        with self._private_errors(calls):
            sources = with_words(calls, self.transcripts)
        with self._private_errors(sources):
            return self._study(sources, channels)

    def _check_usage(self) -> None:
        if not self.paths and not self.pairs:
            raise click.UsageError("expected a PATH or --pair, got neither")
        if (self.group_by is None) != (self.metadata is None):
            raise InputError.expected("--metadata and --group-by together", got="one of them",
                                      where="rig field")
        if self.csv_path is not None and self.calls_path is not None \
                and self.csv_path.resolve() == self.calls_path.resolve():
            raise InputError("expected different files for --csv and --calls-csv, got one twice")

    def _private_errors(self, sources: Sequence[CallSource]) -> AbstractContextManager[None]:
        return errors_without_names(sources) if self.hide_names else nullcontext()

    def _study(self, sources: Sequence[CallSource], channels: ChannelMap) -> int:
        """From the calls that were found to what is written of them."""
        output = Output(as_json=self.as_json)
        self._prepare_outputs(sources)
        study = self._settings(sources, channels)
        grouping = self._grouping()
        rows = [] if self.pairwise is None else self.pairwise.rows(
            sources, no_transcript=self.no_transcript, no_audio=self.no_audio,
            no_cache=self.no_cache, hide_names=self.hide_names)
        if grouping is not None and self.metadata is not None:
            grouping.check(sources, self.metadata)
        found = self._measured(output, sources, study)
        groups = None if grouping is None else grouping.of(
            [c for c in found if isinstance(c, CallMeasures)])
        asked = None
        if self.pairwise is not None:
            asked = self.pairwise.ask(output, rows, sources, found, self.cache_dir,
                                      hide_names=self.hide_names)
            if asked.study is None:
                return asked.code
        document = field_document(found, study, groups=groups,
                                  pairs=None if asked is None else asked.study)
        document["settings"] |= {"no_transcript": self.no_transcript, "no_audio": self.no_audio}
        if self.hide_names:
            document = without_names(document, sources)
        self._write(output, document)
        return self._exit_code(output, document, asked)

    def _prepare_outputs(self, sources: Sequence[CallSource]) -> None:
        """Before any work: what cannot be written, and the folder for pictures."""
        check_outputs({"--csv": self.csv_path, "--calls-csv": self.calls_path,
                       "--html": self.html_path},
                      [*(path for source in sources for path in source.files), self.metadata],
                      folders={"--pictures": self.pictures_dir})
        if self.pictures_dir is not None:
            make_folder(self.pictures_dir)

    def _settings(self, sources: Sequence[CallSource], channels: ChannelMap) -> FieldSettings:
        stereo = any(len(source.paths) == 1 for source in sources)
        return FieldSettings(
            vad=detector_settings(self.settings), yield_silence_s=self.yield_silence,
            guessed_channels=channels.guessed and stereo, both_channels_named=channels.both_named,
            no_transcript=self.no_transcript,
            recogniser=None if self.recognise is None else find_recogniser(
                self.recognise, partial(click.echo, err=True)),
            sensitivity=not self.no_sensitivity, prosody=self.prosody, edges=self.edges)

    def _grouping(self) -> Grouping | None:
        if self.metadata is None or self.group_by is None:
            return None
        return read_groups(self.metadata, self.group_by)

    def _measured(self, output: Output, sources: Sequence[CallSource],
                  study: FieldSettings) -> list[CallMeasures | Skipped]:
        # Of the band powers in it speech could be made again that can be understood.
        kept = None if self.no_cache or self.no_audio or self.no_transcript else self.cache_dir
        told = kept is None or kept.exists()
        found: list[CallMeasures | Skipped] = []
        with output.progress("field", len(sources)) as progress:
            for result in measure_all(sources, study, kept, self.jobs or default_jobs()):
                found.append(result)
                progress.update(len(found))
                if kept is not None and not told and kept.exists():
                    told = True
                    output.note(f"what was read is kept in the new folder {named(kept)}; it may be "
                                "deleted (--cache, --no-cache)")
        return found

    def _write(self, output: Output, document: dict[str, Any]) -> None:
        if self.csv_path is not None:
            write_csv(self.csv_path, document)
        if self.calls_path is not None:
            write_calls_csv(self.calls_path, document)
        if self.pictures_dir is not None:
            write_pictures(self.pictures_dir, document["calls"])
        if self.html_path is not None:
            write_field_page(document, self.html_path)
        print_field(output, document)
        output.document(document)

    def _exit_code(self, output: Output, document: dict[str, Any],
                   asked: AskedPairs | None) -> int:
        missed = _missed(document["aggregate"]) if self.fail_on_gate else []
        for line in missed:
            output.note(line)
        if document["skipped"] or document["aggregate"]["words_unusable"]:
            return 3
        return 1 if missed else 0 if asked is None else asked.code


def _missed(total: dict[str, Any]) -> list[str]:
    """A line a gate that is not met. Without evidence none is, as in `rig gate`."""
    figures = {"l1_p50_ms": "l1", "interruption_rate": "interruption_rate",
               "turn_take_rate": "turn_take"}
    return [f"gate not met: {name} {gate['limit']}: "
            + (f"no evidence: {total[figures[name]]['reason']}" if gate["met"] is None
               else f"it is {gate['value']:.4g}")
            for name, gate in total["gates"].items() if not gate["met"]]
