"""Recordings of sessions as clips: what annotators hear."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from audio.errors import InputError
from audio.files import read_channel
from audio.timebase import SESSION_RATE_HZ, n_to_s, s_to_n
from rig.playout import Policy
from rig.record import SessionRecord
from rig.report.job import damaged
from rig.store import RunFolder
from rig.tracks import heard_samples, make_track
from rig.validation.sample import Clip, clip_of

USER_CHANNEL = 0


def session_clip(run: RunFolder, record: SessionRecord, playout: Policy,
                 stretch_s: tuple[float, float], window_s: tuple[float, float]) -> Clip:
    """User and agent as heard under `playout` from `stretch_s`, as far as it was recorded, with the
    window marked."""
    end_n = min(record.recorded_n, s_to_n(stretch_s[1], SESSION_RATE_HZ))
    start_n = min(max(0, s_to_n(stretch_s[0], SESSION_RATE_HZ)), end_n)
    with _reading(run, record):
        user = read_channel(run.rec_dir / record.stereo.path, USER_CHANNEL)[start_n:end_n]
        agent = heard_samples(run, make_track(record, playout))[start_n:end_n]
    start_s, length_s = n_to_s(start_n, SESSION_RATE_HZ), n_to_s(end_n - start_n, SESSION_RATE_HZ)
    marks = (max(0.0, window_s[0] - start_s), min(length_s, window_s[1] - start_s))
    return clip_of([user, agent], ["user", "agent"], marks)


def agent_clip(run: RunFolder, record: SessionRecord, playout: Policy) -> Clip:
    """All that was heard of the agent under `playout`."""
    with _reading(run, record):
        agent = heard_samples(run, make_track(record, playout))
    return clip_of([agent], ["agent"])


@contextmanager
def damage_told(where: Path) -> Iterator[None]:
    """A record that holds what no session does (a rate of 0, a count below it) is an input error,
    as everywhere else that it is read."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{where}: {damaged(error)}") from error


def _reading(run: RunFolder, record: SessionRecord) -> AbstractContextManager[None]:
    return damage_told(run.record_path(record.case_id, record.trial))
