"use strict";
// One episode: pictures, time line, paths and curves under one time cursor.
(function () {
  const { h } = pinch;
  const rates = [0.1, 0.25, 0.5, 1, 2, 4];

  class Episode {
    constructor(source, set, data, row) {
      Object.assign(this, { source, set, data });
      this.player = new pinch.Player(data.rows, set.fps);
      this.window = { from: 0, to: data.rows - 1 };
      this.frames = []; // pictures that the server decodes
      this.cams = h("section.cams.of" + data.cameras.length, {}, data.cameras.map((c) => this.camera(c)));
      this.lanes = new pinch.Lanes(data.lanes, this.player, this.window);
      this.curves = new pinch.Curves(source, set, data.index, this.player, this.window);
      this.scene = set.paths.length ? new pinch.Scene(source, set, data.index, this.player) : null;
      this.root = h("div.episode", {},
        h("div.watch", {}, this.head(), this.cams, this.transport(), this.lanes.root, this.scene ? this.scene.root : null, this.findings(), this.about()),
        h("div.read", {}, this.curves.root));
      this.player.onrow((r, playing) => this.show(r, playing));
      this.player.seek(row || 0);
    }

    head() {
      const link = (index, text, title) => h("a.button", { href: this.source.link(index), title }, text);
      const { prev, next } = this.data;
      return h("header.top", {}, h("h1", {}, "Episode " + this.data.index),
        h("span.soft", {}, this.data.rows + " rows · " + pinch.seconds(this.data.seconds) + " · " + this.set.fps + " Hz"),
        h("nav", {}, prev >= 0 ? link(prev, "‹ " + prev, "previous (p)") : null, next >= 0 ? link(next, next + " ›", "next (n)") : null,
          h("a.button.home", { href: this.source.home() }, "dataset")),
        h("div.task", {}, this.data.tasks.join("; ") || "no instruction"));
    }

    // camera is a video, or pictures that the server decodes, or the reason why there is neither.
    camera(c) {
      const shape = c.width ? c.width + " × " + c.height + (c.codec ? " " + c.codec : "") : "";
      const note = h("p.problem", { hidden: !c.note }, c.note);
      const figure = h("figure", { onclick: () => figure.classList.toggle("large") }, h("figcaption", {}, h("b", {}, c.name.replace(/^observation\.images?\./, "")), h("span.soft", {}, shape)), note);
      figure.dataset.camera = c.name;
      if (!c.src) {
        if (c.frames && !c.note) figure.prepend(this.stills(c));
        return figure;
      }
      const el = h("video", { muted: true, playsInline: true, preload: "auto", disablePictureInPicture: true });
      const refuse = () => {
        if (el.refused) return;
        el.refused = true;
        this.player.drop(el);
        note.hidden = false;
        note.textContent = pinch.unsupported(c) + (c.frames ? " Meanwhile pinch decodes single pictures." : "");
        el.replaceWith(c.frames ? this.stills(c) : "");
      };
      el.addEventListener("error", () => { if (el.getAttribute("src")) refuse(); });
      figure.prepend(el);
      this.player.add(el, c.from);
      if (el.canPlayType(c.mime) === "") queueMicrotask(refuse);
      else el.src = c.src;
      return figure;
    }

    // stills shows the picture of the row; while one is fetched only the newest wish is kept.
    stills(c) {
      const img = h("img", { alt: c.name }), f = { img, busy: false, want: this.player.row, at: -1 };
      f.next = () => {
        if (f.busy || f.want === f.at) return;
        f.busy = true;
        f.at = f.want;
        img.src = c.frames + f.at;
      };
      const done = () => { f.busy = false; f.next(); };
      img.addEventListener("load", done);
      img.addEventListener("error", () => { img.title = "this picture can not be decoded"; done(); });
      this.frames.push(f);
      f.next();
      return img;
    }

    transport() {
      this.button = h("button.play", { type: "button", title: "space", onclick: () => this.player.toggle() }, "▶");
      this.time = h("output.time");
      this.speed = h("select", { title: "speed ( [ and ] )", onchange: () => this.player.setRate(+this.speed.value) },
        rates.map((r) => h("option", { value: String(r), selected: r === 1 }, r + "×")));
      this.slider = h("input.slider", { type: "range", min: "0", max: String(this.data.rows - 1), value: "0", oninput: () => this.player.seek(+this.slider.value) });
      const step = (d, text, title) => h("button", { type: "button", title, onclick: () => { this.player.pause(); this.player.seek(this.player.row + d); } }, text);
      this.loop = h("button.loop", { type: "button", title: "repeat (l)", onclick: () => this.toggleLoop() }, "⟲");
      return h("section.transport", {}, step(-1, "‹", "one row back (←)"), this.button, step(1, "›", "one row on (→)"), this.slider, this.time, this.speed, this.loop);
    }

    toggleLoop() {
      this.player.loop = !this.player.loop;
      this.loop.classList.toggle("on", this.player.loop);
    }

    findings() {
      this.found = h("section.card.findings");
      this.setFindings(this.data.findings);
      return this.found;
    }

    setFindings(list) {
      this.data.findings = list;
      this.found.hidden = !list.length;
      this.found.replaceChildren(h("h3", {}, "Findings"), ...list.map((f) => pinch.oneFinding(f, (row) => { this.player.pause(); this.player.seek(row); })));
    }

    about() {
      const { about, problems } = this.data;
      if (!about.length && !problems.length) return null;
      return h("section.card.about", {}, h("h3", {}, "About the recording"), problems.map((p) => h("p.problem", {}, p)),
        h("table", {}, about.map((a) => h("tr", {}, h("td.soft", {}, a.name), h("td", {}, a.value)))));
    }

    show(row, playing) {
      this.button.textContent = playing ? "❚❚" : "▶";
      this.slider.value = String(row);
      this.time.textContent = "row " + row + " · " + pinch.seconds(row / this.set.fps);
      this.time.dataset.row = String(row);
      for (const f of this.frames) {
        f.want = row;
        f.next();
      }
      this.lanes.show(row);
      this.curves.show(row);
      if (this.scene) this.scene.draw();
    }

    // zoom shows a part of the rows around the cursor, of 1/factor the length.
    zoom(factor) {
      const w = this.window, n = this.data.rows, len = Math.max(Math.min(n, 8), Math.min(n, Math.round((w.to - w.from + 1) / factor)));
      const share = (this.player.row - w.from) / Math.max(1, w.to - w.from);
      w.from = Math.max(0, Math.min(n - len, Math.round(this.player.row - share * (len - 1))));
      w.to = w.from + len - 1;
      this.lanes.layout();
      this.curves.layout();
    }

    // nextFinding goes to the next marked finding behind the cursor, and round.
    nextFinding() {
      const frames = this.data.findings.filter((f) => f.frame >= 0).map((f) => f.frame).sort((a, b) => a - b);
      if (frames.length) this.player.seek(frames.find((f) => f > this.player.row) ?? frames[0]);
    }

    key(e) {
      const p = this.player, move = (d) => { p.pause(); p.seek(p.row + d); };
      const speed = (d) => {
        this.speed.selectedIndex = Math.max(0, Math.min(rates.length - 1, this.speed.selectedIndex + d));
        p.setRate(+this.speed.value);
      };
      const keys = {
        " ": () => p.toggle(), ArrowLeft: () => move(e.shiftKey ? -this.set.fps : -1), ArrowRight: () => move(e.shiftKey ? this.set.fps : 1),
        Home: () => move(-p.rows), End: () => move(p.rows), "[": () => speed(-1), "]": () => speed(1), l: () => this.toggleLoop(),
        "+": () => this.zoom(2), "=": () => this.zoom(2), "-": () => this.zoom(0.5), 0: () => this.zoom(1e-9), f: () => this.nextFinding(),
        u: () => this.scene && this.scene.turnUp(), r: () => this.scene && this.scene.reset(), "/": () => this.curves.filter.focus(),
        n: () => this.data.next >= 0 && (location.href = this.source.link(this.data.next)),
        p: () => this.data.prev >= 0 && (location.href = this.source.link(this.data.prev)),
      };
      if (!keys[e.key]) return;
      e.preventDefault();
      keys[e.key]();
    }

    close() {
      this.player.close();
      this.curves.close();
      if (this.scene) this.scene.close();
    }
  }

  pinch.Episode = Episode;

  pinch.help = [["space", "play, pause"], ["← →", "one row"], ["shift ← →", "one second"], ["home end", "first, last row"], ["[ ]", "slower, faster"], ["l", "repeat"],
    ["+ − 0", "zoom in, out, all"], ["f", "next finding"], ["n p", "next, previous episode"], ["/", "filter features"], ["r", "reset the view of the paths"],
    ["u", "z or y is up"], ["?", "this help"]];
})();
