"use strict";
// Curves of the features, grouped; values are fetched when a chart comes into sight.
(function () {
  const { h } = pinch;
  const most = 8; // curves of a chart

  const groups = [
    ["state", "State", true],
    ["actions", "Actions", false],
    ["motions", "Motions from row to row", false],
    ["flags", "Flags", false],
    ["times", "Times of capture", false],
  ];

  // rank puts what one looks at first to the front.
  function rank(name) {
    if (/joint|gripper/.test(name)) return 0;
    if (/hand_root\.absolute$/.test(name)) return 1;
    if (/^observation\.state$/.test(name)) return 2;
    if (/^action\.next/.test(name)) return 3;
    if (/finger_tip|hand_cam|controller|hmd/.test(name)) return 5;
    return 4;
  }

  // split puts quaternions apart from what has another scale, and at most `most` elements together.
  function split(feature) {
    const rotation = [], rest = [];
    feature.elements.forEach((name, k) => (/q[xyzw]$/.test(name) ? rotation : rest).push(k));
    const out = [];
    for (const g of [rest, rotation]) for (let i = 0; i < g.length; i += most) out.push(g.slice(i, i + most));
    return out;
  }

  // Chart is one canvas of curves over the rows.
  class Chart {
    constructor(curves, feature, elements) {
      this.curves = curves;
      this.feature = feature;
      this.elements = elements;
      this.canvas = h("canvas");
      this.cursor = h("div.cursor");
      this.low = h("span.low");
      this.high = h("span.high");
      this.values = elements.map(() => h("b"));
      const legend = h("div.legend", {}, elements.map((k, i) =>
        h("span", { title: feature.elements[k] }, h("i", { style: { background: this.color(i) } }), feature.elements[k] === feature.name ? "" : feature.elements[k] + " ", this.values[i])));
      this.plot = h("div.plot", {
        onpointerdown: (e) => { this.drag = true; this.plot.setPointerCapture(e.pointerId); this.go(e); },
        onpointermove: (e) => { if (this.drag) this.go(e); },
        onpointerup: () => { this.drag = false; },
      }, this.canvas, this.cursor, this.high, this.low);
      this.root = h("div.chart", {}, h("h4", { title: feature.name }, feature.name), this.plot, legend);
      this.root.dataset.feature = feature.name;
    }

    color(i) { return pinch.palette[i % pinch.palette.length]; }

    async load() {
      if (this.asked) return;
      this.asked = true;
      try {
        this.data = await this.curves.source.column(this.curves.index, this.feature);
      } catch (e) {
        this.plot.replaceChildren(h("p.problem", {}, e.message));
        return;
      }
      this.draw();
      this.show(this.curves.player.row);
    }

    at(row, k) { return this.data[row * this.feature.elements.length + k]; }

    range() {
      let lo = Infinity, hi = -Infinity;
      const { from, to } = this.curves.window;
      for (let r = from; r <= to; r++) {
        for (const k of this.elements) {
          const v = Number(this.at(r, k));
          if (!Number.isFinite(v)) continue;
          if (v < lo) lo = v;
          if (v > hi) hi = v;
        }
      }
      return [lo, hi];
    }

    draw() {
      if (!this.data || !this.canvas.isConnected || this.canvas.clientWidth === 0) return;
      const [g, w, hgt] = pinch.sharpen(this.canvas);
      let [lo, hi] = this.range();
      if (!(lo <= hi)) {
        this.low.textContent = "no finite value";
        this.high.textContent = "";
        return;
      }
      this.low.textContent = pinch.number(lo);
      this.high.textContent = pinch.number(hi);
      if (hi - lo < 1e-12 * Math.max(1, Math.abs(hi))) { lo -= 0.5; hi += 0.5; }
      const { from, to } = this.curves.window, n = to - from + 1;
      const x = (r) => (r - from + 0.5) / n * w, y = (v) => hgt - 6 - (v - lo) / (hi - lo) * (hgt - 12);
      if (lo < 0 && hi > 0) {
        g.strokeStyle = pinch.color("zero");
        g.setLineDash([3, 4]);
        g.beginPath(); g.moveTo(0, y(0)); g.lineTo(w, y(0)); g.stroke();
        g.setLineDash([]);
      }
      g.lineWidth = 1.5;
      g.lineJoin = "round";
      this.elements.forEach((k, i) => {
        g.strokeStyle = this.color(i);
        g.beginPath();
        n > 2 * w ? this.envelope(g, k, x, y, w) : this.line(g, k, x, y);
        g.stroke();
      });
    }

    // line joins the values; a value that is not finite leaves a gap.
    line(g, k, x, y) {
      let pen = false;
      for (let r = this.curves.window.from; r <= this.curves.window.to; r++) {
        const v = Number(this.at(r, k));
        if (!Number.isFinite(v)) { pen = false; continue; }
        pen ? g.lineTo(x(r), y(v)) : g.moveTo(x(r), y(v));
        pen = true;
      }
    }

    // envelope draws the least and the greatest value of the rows behind each pixel, so that a spike of one row stays visible.
    envelope(g, k, x, y, w) {
      const { from, to } = this.curves.window, n = to - from + 1;
      for (let px = 0; px < w; px++) {
        const a = from + Math.floor(px * n / w), b = Math.min(to, from + Math.floor((px + 1) * n / w));
        let lo = Infinity, hi = -Infinity;
        for (let r = a; r <= b; r++) {
          const v = Number(this.at(r, k));
          if (v < lo) lo = v;
          if (v > hi) hi = v;
        }
        if (!(lo <= hi)) continue;
        g.moveTo(px + 0.5, y(lo));
        g.lineTo(px + 0.5, y(hi) - 0.5);
      }
    }

    show(row) {
      const { from, to } = this.curves.window, x = 100 * (row - from + 0.5) / (to - from + 1);
      this.cursor.hidden = x < 0 || x > 100;
      this.cursor.style.left = x + "%";
      if (!this.data) return;
      this.elements.forEach((k, i) => {
        const v = this.at(row, k);
        this.values[i].textContent = pinch.number(v);
        this.values[i].dataset.value = String(v);
      });
    }

    go(e) {
      const box = this.plot.getBoundingClientRect(), { from, to } = this.curves.window;
      this.curves.player.seek(Math.floor(from + (e.clientX - box.left) / box.width * (to - from + 1)));
    }
  }

  // Flag is a strip for each element of a yes/no feature.
  class Flag extends Chart {
    constructor(curves, feature, elements) {
      super(curves, feature, elements);
      this.root.className = "flag";
      this.root.replaceChildren(h("span.name", { title: feature.name }, feature.name), this.plot, h("span.value", {}, this.values));
    }

    draw() {
      if (!this.data || !this.canvas.isConnected || this.canvas.clientWidth === 0) return;
      const [g, w, hgt] = pinch.sharpen(this.canvas), { from, to } = this.curves.window, n = to - from + 1, each = hgt / this.elements.length;
      this.low.textContent = this.high.textContent = "";
      this.elements.forEach((k, i) => {
        g.fillStyle = pinch.color("flag");
        for (let r = from; r <= to; r++) {
          if (!this.at(r, k)) continue;
          let end = r;
          while (end < to && this.at(end + 1, k)) end++;
          const a = (r - from) / n * w, b = (end + 1 - from) / n * w;
          g.fillRect(a, i * each + 1, Math.max(0.5, b - a), each - 2);
          r = end;
        }
      });
    }
  }

  class Curves {
    constructor(source, set, index, player, window) {
      Object.assign(this, { source, index, player, window });
      this.charts = [];
      this.seen = new Set();
      this.watch = new IntersectionObserver((entries) => {
        for (const e of entries) {
          const chart = e.target.chart;
          e.isIntersecting ? this.seen.add(chart) : this.seen.delete(chart);
          if (!e.isIntersecting) continue;
          chart.load();
          chart.draw();
          chart.show(player.row);
        }
      }, { rootMargin: "200px" });
      this.sized = new ResizeObserver((entries) => { for (const e of entries) e.target.chart.draw(); });
      this.filter = h("input.filter", { type: "search", placeholder: "filter features  ( / )", oninput: () => this.narrow() });
      this.root = h("section.curves", {}, h("div.tools", {}, h("h3", {}, "Curves"), this.filter));
      for (const [key, title, open] of groups) this.group(set.features.filter((f) => f.group === key), title, open, key);
    }

    group(features, title, open, key) {
      if (!features.length) return;
      features.sort((a, b) => rank(a.name) - rank(b.name));
      const box = h("details.group", { open: open || this.charts.length + features.length <= 8 }, h("summary", {}, title, h("span.soft", {}, " " + features.length)));
      for (const f of features) {
        for (const elements of split(f)) {
          const chart = key === "flags" ? new Flag(this, f, elements) : new Chart(this, f, elements);
          chart.root.chart = chart;
          chart.plot.chart = chart;
          this.charts.push(chart);
          box.append(chart.root);
          this.watch.observe(chart.root);
          this.sized.observe(chart.plot);
        }
      }
      this.root.append(box);
    }

    narrow() {
      const words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const c of this.charts) {
        const name = (c.feature.name + " " + c.feature.elements.join(" ")).toLowerCase();
        c.root.hidden = !words.every((w) => name.includes(w));
      }
      for (const d of this.root.querySelectorAll("details")) {
        d.hidden = ![...d.children].some((e) => e.chart && !e.hidden);
        if (words.length) d.open = !d.hidden;
      }
    }

    layout() { for (const c of this.seen) { c.draw(); c.show(this.player.row); } }

    show(row) { for (const c of this.seen) c.show(row); }

    close() { this.watch.disconnect(); this.sized.disconnect(); }
  }

  pinch.Curves = Curves;
})();
