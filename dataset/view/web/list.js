"use strict";
// The list of episodes: only the lines in sight exist, and only their part of the list is asked for.
(function () {
  const { h } = pinch;
  const height = 46, part = 100;
  const tallest = 8e6; // pixels: browsers cut elements off at some tens of millions

  class List {
    constructor(source, set) {
      this.source = source;
      this.set = set;
      this.current = -1;
      this.token = 0;
      this.text = h("input", { type: "search", placeholder: "search number, instruction, label …", oninput: () => this.later() });
      this.only = "";
      this.chips = [["", "all"], ["errors", "errors"], ["warnings", "findings"], ["failed", "failed"]].map(([key, name]) => {
        const b = h("button.chip", { type: "button", onclick: () => { this.only = key; this.mark(); this.restart(); } }, name);
        b.key = key;
        return b;
      });
      this.space = h("div.space");
      this.box = h("div.rows", { tabIndex: 0, onscroll: () => this.draw() }, this.space);
      this.total = h("div.total.soft");
      this.root = h("div.list", {}, this.text, h("div.chips", {}, this.chips), this.total, this.box);
      this.mark();
      new ResizeObserver(() => this.draw()).observe(this.box);
      this.restart();
    }

    mark() { for (const b of this.chips) b.classList.toggle("on", b.key === this.only); }

    later() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.restart(), 200);
    }

    // restart asks anew: another query, or new findings.
    restart() {
      this.token++;
      this.parts = new Map();
      this.matched = undefined;
      this.fetch(0);
    }

    async fetch(k) {
      if (this.parts.has(k)) return;
      this.parts.set(k, null);
      const token = this.token;
      try {
        const page = await this.source.list(k * part, part, this.text.value, this.only);
        if (token !== this.token) return;
        if (this.parts.size > 50) for (const old of [...this.parts.keys()].slice(0, 25)) if (old !== k) this.parts.delete(old);
        this.parts.set(k, page.rows);
        this.matched = page.matched;
        this.total.textContent = page.matched === page.total ? pinch.plural(page.total, "episode") : pinch.count(page.matched) + " of " + pinch.count(page.total) + " episodes";
        this.space.style.height = Math.min(tallest, this.matched * height) + "px";
      } catch (e) {
        if (token !== this.token) return;
        this.parts.delete(k);
        this.total.textContent = e.message;
      }
      this.draw();
    }

    // first line in sight, as a fraction where the list is taller than the element.
    first() {
      const full = this.matched * height, view = this.box.clientHeight;
      if (full <= tallest) return this.box.scrollTop / height;
      return this.box.scrollTop / (tallest - view) * (this.matched - view / height);
    }

    draw() {
      if (this.matched === undefined) return;
      const first = this.first(), n = Math.ceil(this.box.clientHeight / height) + 2, from = Math.max(0, Math.floor(first) - 1);
      const lines = [];
      for (let k = from; k < Math.min(this.matched, from + n); k++) {
        const p = Math.floor(k / part), rows = this.parts.get(p);
        if (rows === undefined) this.fetch(p);
        const line = rows ? this.line(rows[k - p * part]) : h("div.line.soft", {}, "…");
        line.style.top = this.box.scrollTop + (k - first) * height + "px";
        lines.push(line);
      }
      this.space.replaceChildren(...lines);
    }

    line(r) {
      const badges = [];
      if (r.errors) badges.push(h("span.badge.error", { title: pinch.plural(r.errors, "error") }, String(r.errors)));
      if (r.warnings) badges.push(h("span.badge.warn", { title: pinch.plural(r.warnings, "warning") }, String(r.warnings)));
      if (r.success === "no") badges.push(h("span.badge.fail", { title: "success is false" }, "failed"));
      if (r.missing) badges.push(h("span.badge.miss", { title: r.missing + " files are missing" }, "files missing"));
      const line = h("a.line", { href: this.source.link(r.index) },
        h("div", {}, h("b", {}, "#" + r.index), h("span.soft", {}, pinch.duration(r.seconds)), badges),
        h("div.task.soft", { title: r.task }, r.task || "no instruction"));
      line.classList.toggle("current", r.index === this.current);
      return line;
    }

    select(index) {
      this.current = index;
      this.draw();
    }
  }

  pinch.List = List;
})();
