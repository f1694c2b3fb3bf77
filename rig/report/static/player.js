/* Plays sound that lies in the page, sample by sample on the clock of the sound device.

     const player = new RigPlayer();
     await player.load(base64);            stereo: user left, model right; rejected if not decodable,
                                           false if another load or clear came meanwhile
     player.play(from_s, to_s); player.pause();
     player.channel("both" | "left" | "right");   one side alone is heard in both ears
     player.ontick = (seconds) => {};      while it plays, once a picture
     player.onstate = (playing) => {};

   The sound is decoded whole, so that a place is a sample and no seek is a guess. */
"use strict";
window.RigPlayer = class RigPlayer {
  constructor() {
    this.ontick = null;
    this.onstate = null;
    this.playing = false;
    this.at = 0;
    this._channel = "both";
    this._buffer = null;
    this._loading = null;
  }

  get ready() { return this._buffer !== null; }
  get duration() { return this._buffer ? this._buffer.duration : 0; }

  clear() {
    this.pause();
    this._buffer = null;
    this._loading = null;
    this.at = 0;
  }

  async load(base64) {
    /* The rate of the recording: the browser then changes nothing. No device is opened for it. */
    const decoder = new OfflineAudioContext(2, 1, 24000);
    const mine = this._loading = {};
    const buffer = await decoder.decodeAudioData(rigBytes(base64).buffer);
    if (this._loading !== mine) return false;
    this._buffer = buffer;
    return true;
  }

  /* The context is made at the first play: browsers want the reader's own act before sound. */
  _context() {
    if (this._audio) return this._audio;
    const audio = new AudioContext();
    const splitter = audio.createChannelSplitter(2);
    const merger = audio.createChannelMerger(2);
    const gains = [0, 1].map((from) => [0, 1].map((to) => {
      const gain = audio.createGain();
      splitter.connect(gain, from);
      gain.connect(merger, 0, to);
      return gain;
    }));
    merger.connect(audio.destination);
    this._audio = audio;
    this._input = splitter;
    this._gains = gains;
    this.channel(this._channel);
    return audio;
  }

  channel(name) {
    this._channel = name;
    if (!this._gains) return;
    const level = (from, to) => (name === "both" ? from === to
      : from === (name === "left" ? 0 : 1)) ? 1 : 0;
    this._gains.forEach((row, from) => row.forEach((gain, to) => {
      gain.gain.value = level(from, to);
    }));
  }

  async play(from, to) {
    if (!this._buffer) return;
    const audio = this._context();
    this._stop();
    const turn = this._turn = {};
    await audio.resume();
    if (this._turn !== turn || !this._buffer) return;
    const start = Math.max(0, Math.min(from, this.duration));
    const end = Math.min(to === undefined ? this.duration : to, this.duration);
    if (end - start < 0.001) return;
    const source = audio.createBufferSource();
    source.buffer = this._buffer;
    source.connect(this._input);
    const begun = audio.currentTime + 0.02;
    source.start(begun, start, end - start);
    this._source = source;
    this.playing = true;
    this.at = start;
    if (this.onstate) this.onstate(true);
    const tick = () => {
      if (this._source !== source) return;
      /* What is heard now was handed over a latency ago. */
      const heard = audio.currentTime - begun - (audio.outputLatency || 0);
      this.at = Math.max(start, Math.min(end, start + heard));
      if (this.ontick) this.ontick(this.at);
      if (start + heard >= end) this.pause();
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  pause() {
    const was = this.playing;
    this._turn = null;
    this._stop();
    if (was && this.onstate) this.onstate(false);
  }

  _stop() {
    const source = this._source;
    this._source = null;
    this.playing = false;
    if (source) source.stop();
  }
};
