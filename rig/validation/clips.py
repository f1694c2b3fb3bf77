"""Recordings of sessions as clips: what annotators hear."""

from __future__ import annotations

from audio.files import read_channel
from audio.timebase import SESSION_RATE_HZ, n_to_s, s_to_n
from rig.playout import Policy
from rig.record import SessionRecord
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
    user = read_channel(run.rec_dir / record.stereo.path, USER_CHANNEL)[start_n:end_n]
    agent = heard_samples(run, make_track(record, playout))[start_n:end_n]
    start_s, length_s = n_to_s(start_n, SESSION_RATE_HZ), n_to_s(end_n - start_n, SESSION_RATE_HZ)
    marks = (max(0.0, window_s[0] - start_s), min(length_s, window_s[1] - start_s))
    return clip_of([user, agent], ["user", "agent"], marks)


def agent_clip(run: RunFolder, record: SessionRecord, playout: Policy) -> Clip:
    """All that was heard of the agent under `playout`."""
    return clip_of([heard_samples(run, make_track(record, playout))], ["agent"])
