"use strict";
// The paths of the grippers in space, drawn on a plain canvas: a pinhole camera that orbits around the middle of the paths. Metres; up is
// the z axis, or y where a tracker has it so (key u).
(function () {
  const { h } = pinch;
  const sides = { left: "left", right: "right", "": "other" };

  // rotate turns vector v by the unit quaternion x y z w.
  function rotate([x, y, z, w], [a, b, c]) {
    const tx = 2 * (y * c - z * b), ty = 2 * (z * a - x * c), tz = 2 * (x * b - y * a);
    return [a + w * tx + y * tz - z * ty, b + w * ty + z * tx - x * tz, c + w * tz + x * ty - y * tx];
  }

  class Scene {
    constructor(source, set, index, player) {
      Object.assign(this, { source, index, player });
      this.features = new Map(set.features.map((f) => [f.name, f]));
      this.paths = set.paths.map((p) => ({ ...p, on: p.main }));
      this.up = "z";
      this.eye = { azimuth: -0.9, elevation: 0.45, distance: 1, target: [0, 0, 0] };
      this.canvas = h("canvas", {
        onpointerdown: (e) => { this.drag = [e.clientX, e.clientY]; this.canvas.setPointerCapture(e.pointerId); },
        onpointermove: (e) => this.moved(e),
        onpointerup: () => { this.drag = null; },
        ondblclick: () => this.reset(),
      });
      this.canvas.addEventListener("wheel", (e) => {
        e.preventDefault();
        this.eye.distance *= Math.exp(e.deltaY * 0.0015);
        this.draw();
      }, { passive: false });
      this.readout = h("div.readout");
      this.chips = h("div.chips", {}, this.paths.map((p) => {
        const chip = h("button.chip." + sides[p.side], {
          type: "button", title: p.feature, onclick: () => {
            p.on = !p.on;
            chip.classList.toggle("on", p.on);
            this.load(p);
          },
        }, p.name);
        chip.classList.toggle("on", p.on);
        return chip;
      }));
      this.root = h("section.scene", {}, this.canvas, this.readout,
        h("div.hint", {}, "drag to orbit · shift-drag to move · wheel to zoom · double click to reset"), this.chips);
      this.sized = new ResizeObserver(() => this.draw());
      this.sized.observe(this.canvas);
      Promise.all(this.paths.filter((p) => p.on).map((p) => this.load(p))).then(() => this.reset());
    }

    async load(p) {
      if (p.on && !p.data) {
        try {
          p.data = await this.source.column(this.index, this.features.get(p.feature));
          p.dim = this.features.get(p.feature).elements.length;
          p.tipData = await Promise.all(p.tips.map((name) => this.source.column(this.index, this.features.get(name))));
        } catch (e) {
          p.problem = e.message;
        }
      }
      this.draw();
    }

    shown() { return this.paths.filter((p) => p.on && p.data); }

    // point is the position of a path at a row, or null where it is not finite.
    point(p, row) {
      const i = row * p.dim + p.at, v = [Number(p.data[i]), Number(p.data[i + 1]), Number(p.data[i + 2])];
      return v.every(Number.isFinite) ? v : null;
    }

    quaternion(p, row) {
      if (p.rotation < 0) return null;
      const i = row * p.dim + p.rotation, q = [0, 1, 2, 3].map((k) => Number(p.data[i + k]));
      const n = Math.hypot(...q);
      return n > 0.5 && Number.isFinite(n) ? q.map((x) => x / n) : null;
    }

    // box encloses the paths that are shown.
    box() {
      const lo = [Infinity, Infinity, Infinity], hi = [-Infinity, -Infinity, -Infinity];
      for (const p of this.shown()) {
        for (let r = 0; r < this.player.rows; r++) {
          const v = this.point(p, r);
          if (v) v.forEach((x, k) => { lo[k] = Math.min(lo[k], x); hi[k] = Math.max(hi[k], x); });
        }
      }
      return lo[0] <= hi[0] ? [lo, hi] : [[-0.5, -0.5, 0], [0.5, 0.5, 0.5]];
    }

    reset() {
      const [lo, hi] = this.box();
      this.floor = this.up === "z" ? lo[2] : lo[1];
      const size = Math.max(0.1, Math.hypot(hi[0] - lo[0], hi[1] - lo[1], hi[2] - lo[2]));
      this.eye = { azimuth: -0.9, elevation: 0.45, distance: 1.55 * size, target: lo.map((x, k) => (x + hi[k]) / 2) };
      this.size = size;
      this.draw();
    }

    turnUp() {
      this.up = this.up === "z" ? "y" : "z";
      this.reset();
    }

    moved(e) {
      if (!this.drag) return;
      const dx = e.clientX - this.drag[0], dy = e.clientY - this.drag[1];
      this.drag = [e.clientX, e.clientY];
      if (e.shiftKey) {
        const { right, up } = this.axes(), s = this.eye.distance / this.focal();
        this.eye.target = this.eye.target.map((x, k) => x - s * dx * right[k] + s * dy * up[k]);
      } else {
        this.eye.azimuth -= dx * 0.008;
        this.eye.elevation = Math.max(-1.5, Math.min(1.5, this.eye.elevation + dy * 0.008));
      }
      this.draw();
    }

    focal() { return 1.25 * Math.min(this.canvas.clientWidth, 1.5 * this.canvas.clientHeight); }

    // axes of the camera in the world: where it is, and its directions right, up and back.
    axes() {
      const { azimuth, elevation } = this.eye, c = Math.cos(elevation), s = Math.sin(elevation);
      const turn = (v) => (this.up === "z" ? v : [v[0], v[2], -v[1]]); // z up to y up
      const back = turn([c * Math.cos(azimuth), c * Math.sin(azimuth), s]);
      const right = turn([-Math.sin(azimuth), Math.cos(azimuth), 0]);
      const up = [back[1] * right[2] - back[2] * right[1], back[2] * right[0] - back[0] * right[2], back[0] * right[1] - back[1] * right[0]];
      return { back, right, up };
    }

    // projector maps metres to CSS pixels of the canvas; depth in metres in front of the camera, null behind it.
    projector(w, hgt) {
      const { back, right, up } = this.axes(), { target, distance } = this.eye, f = this.focal();
      return (v) => {
        const d = [v[0] - target[0], v[1] - target[1], v[2] - target[2]];
        const x = d[0] * right[0] + d[1] * right[1] + d[2] * right[2];
        const y = d[0] * up[0] + d[1] * up[1] + d[2] * up[2];
        const z = distance - (d[0] * back[0] + d[1] * back[1] + d[2] * back[2]);
        return z > 0.02 * distance ? [w / 2 + f * x / z, hgt / 2 - f * y / z, z] : null;
      };
    }

    // onFloor drops a point to the plane below the paths.
    onFloor(v) { return this.up === "z" ? [v[0], v[1], this.floor] : [v[0], this.floor, v[2]]; }

    draw() {
      if (!this.canvas.isConnected || this.canvas.clientWidth === 0 || this.floor === undefined) return;
      const [g, w, hgt] = pinch.sharpen(this.canvas);
      this.project = this.projector(w, hgt);
      g.lineJoin = g.lineCap = "round";
      this.drawFloor(g);
      const row = this.player.row, paths = this.shown();
      for (const p of paths) this.drawShadow(g, p);
      for (const p of paths) this.drawPath(g, p, row);
      for (const p of paths) this.drawHand(g, p, row);
      this.say(paths, row);
    }

    stroke(g, points, style, width) {
      g.strokeStyle = style;
      g.lineWidth = width;
      g.beginPath();
      let pen = false;
      for (const v of points) {
        const s = v && this.project(v);
        if (!s) { pen = false; continue; }
        pen ? g.lineTo(s[0], s[1]) : g.moveTo(s[0], s[1]);
        pen = true;
      }
      g.stroke();
    }

    // drawFloor draws a grid of 1, 2 or 5 times a power of ten of metres, fading out, and the directions of the axes.
    drawFloor(g) {
      const raw = this.size / 8, ten = 10 ** Math.floor(Math.log10(raw)), cell = [1, 2, 5, 10].map((k) => k * ten).find((c) => c >= raw);
      const t = this.eye.target, a = t[0], b = this.up === "z" ? t[1] : t[2], n = 8;
      const at = (x, y) => (this.up === "z" ? [x, y, this.floor] : [x, this.floor, y]);
      const ca = Math.round(a / cell), cb = Math.round(b / cell);
      for (let i = -n; i <= n; i++) {
        g.globalAlpha = 0.9 * (1 - Math.abs(i) / (n + 1));
        const along = (f) => Array.from({ length: 9 }, (_, k) => f((k / 4 - 1) * n * cell));
        this.stroke(g, along((s) => at((ca + i) * cell, cb * cell + s)), pinch.color("grid"), 1);
        this.stroke(g, along((s) => at(ca * cell + s, (cb + i) * cell)), pinch.color("grid"), 1);
      }
      g.globalAlpha = 1;
      const o = at((ca - n / 2) * cell, (cb - n / 2) * cell);
      ["x", "y", "z"].forEach((name, k) => {
        const tip = o.map((x, j) => x + (j === k ? 1.2 * cell : 0));
        this.stroke(g, [o, tip], pinch.color("axis-" + name), 2);
        const s = this.project(tip);
        if (s) {
          g.fillStyle = pinch.color("axis-" + name);
          g.font = "11px system-ui, sans-serif";
          g.fillText(name, s[0] + 3, s[1] - 3);
        }
      });
      this.cell = cell;
    }

    // every thins out rows of long episodes for drawing; the last row is always there.
    *every() {
      const step = Math.max(1, Math.floor(this.player.rows / 3000));
      for (let r = 0; r < this.player.rows; r += step) yield r;
      yield this.player.rows - 1;
    }

    drawShadow(g, p) {
      g.globalAlpha = 0.35;
      this.stroke(g, [...this.every()].map((r) => { const v = this.point(p, r); return v && this.onFloor(v); }), pinch.color("shadow"), 1.5);
      g.globalAlpha = 1;
    }

    drawPath(g, p, row) {
      const color = pinch.color(sides[p.side]);
      const rows = [...this.every()];
      const past = rows.filter((r) => r <= row).concat(row), ahead = [row].concat(rows.filter((r) => r > row));
      g.globalAlpha = 0.3;
      this.stroke(g, ahead.map((r) => this.point(p, r)), color, 1.5);
      g.globalAlpha = 1;
      this.stroke(g, past.map((r) => this.point(p, r)), color, 2.2);
      const start = this.point(p, 0), s = start && this.project(start);
      if (s) {
        g.fillStyle = pinch.color("panel");
        g.strokeStyle = color;
        g.lineWidth = 1.5;
        g.beginPath(); g.arc(s[0], s[1], 3.5, 0, 7); g.fill(); g.stroke();
      }
      const end = this.point(p, this.player.rows - 1), e = end && this.project(end);
      if (e) {
        g.fillStyle = color;
        g.fillRect(e[0] - 3, e[1] - 3, 6, 6);
      }
    }

    // drawHand draws the frame at the cursor (red x, green y, blue z), a plumb line to the floor, and the fingers where their tips are known.
    drawHand(g, p, row) {
      const v = this.point(p, row), s = v && this.project(v);
      p.screen = s ? [s[0], s[1]] : null;
      if (!s) return;
      g.setLineDash([2, 4]);
      this.stroke(g, [v, this.onFloor(v)], pinch.color("soft"), 1);
      g.setLineDash([]);
      const q = this.quaternion(p, row), length = Math.min(0.06, 0.12 * this.size);
      if (q) {
        ["x", "y", "z"].forEach((name, k) => {
          const d = rotate(q, [0, 1, 2].map((j) => (j === k ? length : 0)));
          this.stroke(g, [v, v.map((x, j) => x + d[j])], pinch.color("axis-" + name), 2.5);
        });
      }
      const color = pinch.color(sides[p.side]);
      (p.tipData || []).forEach((data) => {
        const tip = [0, 1, 2].map((k) => Number(data[row * 7 + k]));
        if (tip.every(Number.isFinite)) this.stroke(g, [v, tip], color, 4);
      });
      g.fillStyle = color;
      g.beginPath(); g.arc(s[0], s[1], 4.5, 0, 7); g.fill();
    }

    // say writes numbers at the cursor: speed of each hand over the neighbouring rows, and their distance.
    say(paths, row) {
      const parts = [], main = paths.filter((p) => p.main);
      for (const p of main) {
        const a = Math.max(0, row - 1), b = Math.min(this.player.rows - 1, row + 1), u = this.point(p, a), v = this.point(p, b);
        if (u && v && b > a) {
          const speed = Math.hypot(v[0] - u[0], v[1] - u[1], v[2] - u[2]) * this.player.fps / (b - a);
          parts.push((p.side || p.name) + " " + speed.toFixed(2) + " m/s");
        }
      }
      const left = main.find((p) => p.side === "left"), right = main.find((p) => p.side === "right");
      const u = left && this.point(left, row), v = right && this.point(right, row);
      if (u && v) parts.push("apart " + Math.hypot(v[0] - u[0], v[1] - u[1], v[2] - u[2]).toFixed(3) + " m");
      if (this.cell) parts.push("grid " + pinch.number(this.cell) + " m");
      const problem = this.paths.find((p) => p.on && p.problem);
      this.readout.textContent = problem ? problem.problem : parts.join("  ·  ");
    }

    close() { this.sized.disconnect(); }
  }

  pinch.Scene = Scene;
})();
