"use strict";
// The time line: instructions, texts, events, marks and findings above each other, under one cursor.
(function () {
  const { h } = pinch;

  class Lanes {
    // window is the part of the rows that is shown: {from, to}, to inside.
    constructor(lanes, player, window) {
      this.player = player;
      this.window = window;
      this.rows = [];
      this.cursor = h("div.cursor");
      this.ruler = h("div.ruler");
      this.tracks = h("div.tracks", {
        onpointerdown: (e) => { this.drag = true; this.tracks.setPointerCapture(e.pointerId); this.go(e); },
        onpointermove: (e) => { if (this.drag) this.go(e); },
        onpointerup: () => { this.drag = false; },
      }, this.ruler);
      const names = h("div.names", {}, h("span.soft", {}, "time"));
      for (const lane of lanes) {
        const track = h("div.track.of-" + lane.kind);
        const segments = lane.segments.map((s, i) => {
          const el = h("div.segment" + (s.level ? "." + s.level : ""), { title: this.title(s) }, lane.kind === "text" ? s.text : "");
          if (lane.kind === "text") el.classList.add("shade" + (i % 2));
          track.append(el);
          return { s, el };
        });
        this.rows.push({ lane, segments });
        this.tracks.append(track);
        names.append(h("span", { title: lane.more ? lane.more + " more are not shown" : lane.name }, lane.name + (lane.more ? " …" : "")));
      }
      this.tracks.append(this.cursor);
      this.root = h("section.lanes", {}, names, this.tracks);
      this.layout();
    }

    title(s) {
      const fps = this.player.fps;
      return s.text + "\nrows " + s.from + (s.to > s.from ? " to " + s.to : "") + ", " + pinch.seconds(s.from / fps) + " to " + pinch.seconds((s.to + 1) / fps);
    }

    // at is the place of a row's beginning in per cent of the window.
    at(row) { return 100 * (row - this.window.from) / (this.window.to - this.window.from + 1); }

    layout() {
      for (const { segments } of this.rows) {
        for (const { s, el } of segments) {
          const a = Math.max(0, this.at(s.from)), b = Math.min(100, this.at(s.to + 1));
          el.hidden = b <= 0 || a >= 100;
          el.style.left = a + "%";
          el.style.width = Math.max(0, b - a) + "%";
        }
      }
      const fps = this.player.fps, from = this.window.from / fps, to = (this.window.to + 1) / fps;
      const step = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600].find((s) => (to - from) / s <= 12) || 3600;
      this.ruler.replaceChildren();
      for (let k = Math.ceil(from / step); k * step < to; k++) {
        const x = this.at(k * step * fps);
        if (x > 97) break;
        this.ruler.append(h("span", { style: { left: x + "%" } }, +(k * step).toFixed(2) + " s"));
      }
      this.show(this.player.row);
    }

    show(row) {
      const x = this.at(row + 0.5);
      this.cursor.hidden = x < 0 || x > 100;
      this.cursor.style.left = x + "%";
    }

    go(e) {
      const box = this.tracks.getBoundingClientRect();
      const w = this.window;
      this.player.seek(Math.floor(w.from + (e.clientX - box.left) / box.width * (w.to - w.from + 1)));
    }
  }

  pinch.Lanes = Lanes;
})();
