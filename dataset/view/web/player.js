"use strict";
// The one time cursor. Row r of an episode is shown by frame r of each video, which lasts from (from + r/fps) to (from + (r+1)/fps) in the file.
(function () {
  class Player {
    constructor(rows, fps) {
      this.rows = rows;
      this.fps = fps;
      this.row = 0;
      this.playing = false;
      this.rate = 1;
      this.loop = false;
      this.videos = []; // {el, from}
      this.watchers = [];
    }

    onrow(f) { this.watchers.push(f); }

    add(el, from) { this.videos.push({ el, from }); }

    // drop takes out a video that does not play, so that it does not hold up the others.
    drop(el) { this.videos = this.videos.filter((v) => v.el !== el); }

    tell() { for (const f of this.watchers) f(this.row, this.playing); }

    seek(row) {
      this.row = Math.max(0, Math.min(this.rows - 1, Math.round(row)));
      for (const v of this.videos) this.place(v);
      this.clock = { at: performance.now(), row: this.row };
      this.tell();
    }

    // place shows the middle of the row's time, so that rounding does not show a neighbour.
    place(v) { v.el.currentTime = v.from + (this.row + 0.5) / this.fps; }

    toggle() { this.playing ? this.pause() : this.play(); }

    play() {
      if (this.playing) return;
      if (this.row >= this.rows - 1) this.row = 0;
      this.playing = true;
      for (const v of this.videos) {
        v.el.currentTime = v.from + (this.row + 0.1) / this.fps;
        v.el.playbackRate = this.rate;
        const p = v.el.play();
        if (p) p.catch(() => { /* the element's error event says why */ });
      }
      this.clock = { at: performance.now(), row: this.row };
      this.tell();
      requestAnimationFrame(() => this.step());
    }

    pause() {
      if (!this.playing) return;
      this.playing = false;
      for (const v of this.videos) v.el.pause();
      this.seek(this.row);
    }

    setRate(rate) {
      this.rate = rate;
      for (const v of this.videos) v.el.playbackRate = rate;
      this.clock = { at: performance.now(), row: this.row };
      this.tell();
    }

    // step follows the first video, and keeps the others with it. Without a video that plays it follows the clock.
    step() {
      if (!this.playing) return;
      const lead = this.videos.find((v) => v.el.readyState >= 2);
      let row;
      if (lead) {
        const t = lead.el.currentTime - lead.from;
        row = Math.floor(t * this.fps + 1e-6);
        for (const v of this.videos) if (v !== lead) this.follow(v, t);
        if (lead.el.ended) row = this.rows;
      } else if (this.videos.length) {
        row = this.row; // wait for data
      } else {
        row = Math.floor(this.clock.row + (performance.now() - this.clock.at) / 1000 * this.fps * this.rate);
      }
      if (row >= this.rows) {
        this.row = this.rows - 1;
        if (this.loop) {
          this.playing = false;
          this.play();
          return;
        }
        this.pause();
        return;
      }
      row = Math.max(0, row);
      if (row !== this.row) {
        this.row = row;
        this.tell();
      }
      requestAnimationFrame(() => this.step());
    }

    // follow brings a video to time t of the episode: small differences by its speed, large ones by a jump.
    follow(v, t) {
      const off = v.el.currentTime - v.from - t;
      if (Math.abs(off) > 0.2) v.el.currentTime = v.from + t;
      const want = Math.abs(off) * this.fps < 0.5 ? this.rate : this.rate * (1 - Math.max(-0.25, Math.min(0.25, 2 * off)));
      if (Math.abs(v.el.playbackRate - want) > 1e-3) v.el.playbackRate = want;
      if (v.el.paused && v.el.readyState >= 2) v.el.play().catch(() => { /* as above */ });
    }

    close() {
      this.playing = false;
      for (const v of this.videos) {
        v.el.pause();
        v.el.removeAttribute("src");
        v.el.load(); // lets go of the connection
      }
      this.videos = [];
      this.watchers = [];
    }
  }

  pinch.Player = Player;

  // unsupported says in one sentence what to do about a codec that this browser does not decode.
  pinch.unsupported = function (camera) {
    const usual = camera.codec === "h264" || camera.codec === "av1";
    return "This browser does not decode " + (camera.codec || "this video") + ": " + (usual ? "use a current Chrome, Edge or Firefox, or " : "") +
      "make a copy that browsers play with pinch dataset reencode --codec h264.";
  };
})();
