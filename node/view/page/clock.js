// The moment that is shown: it plays, follows a run that is running, is set, and goes from release to release.

import { Log } from "./log.js";

export const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 50];
const FADE = 0.75;  // seconds for which the light of a release is seen
const BEHIND = 1.4;  // seconds that a live page is behind the log, which is written every second

export class Clock {
  constructor(log, changed) {
    this.log = log; this.changed = changed;
    this.time = 0; this.speed = 1; this.playing = false; this.following = false;
    this.rows = 0;
  }

  get fading() { return FADE * (this.following ? 1 : this.speed); }

  set(time, row = null) {
    this.time = Math.max(0, Math.min(this.log.end, time));
    this.rows = row === null ? this.log.rowsAt(this.time) : row + 1;
    this.changed();
  }

  seek(time) { this.following = false; this.set(time); }

  play(on = !this.playing) {
    if (on && !this.following && this.time >= this.log.end) this.set(0);
    if (!on) this.following = false;
    this.playing = on;
    this.changed();
  }

  follow() { this.following = this.playing = true; this.set(Math.max(this.time, this.log.end - BEHIND)); }

  // One release on or back: the light of exactly that release is shown.
  step(by) {
    const { releases, time } = this.log;
    this.playing = this.following = false;
    const place = Log.before(releases, this.rows) - 1 + by;
    if (!releases.length) return;
    const row = releases[Math.max(0, Math.min(releases.length - 1, place))];
    this.set(time[row], row);
  }

  // After `elapsed` seconds of the reader's time; returns whether anything moved.
  tick(elapsed) {
    if (!this.playing) return false;
    const { end } = this.log, from = this.time;
    if (this.following) {
      const next = end - from > 4 * BEHIND ? end - BEHIND : from + elapsed;
      this.set(Math.min(end, next));
      return true;
    }
    this.set(from + elapsed * this.speed);
    if (this.time >= end) this.play(false);
    return true;
  }
}
