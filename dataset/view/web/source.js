"use strict";
// Where the data comes from: a server that is asked for what is looked at, or the page itself.
(function () {
  async function get(path) {
    const r = await fetch(path);
    if (r.ok) return r;
    let why = r.status + " " + r.statusText;
    try { why = (await r.json()).error || why; } catch (e) { /* the status says it */ }
    throw new Error(why);
  }

  class Live {
    constructor() { this.live = true; this.cache = new Map(); }
    async set() { return (await get("api/set")).json(); }
    async check() { return (await get("api/check")).json(); }
    async list(from, count, text, only) {
      return (await get("api/episodes?" + new URLSearchParams({ from, count, text, only }))).json();
    }
    async episode(index) {
      this.cache.clear(); // columns of the episode before
      return (await get("api/episodes/" + index)).json();
    }
    column(index, feature) {
      const path = "api/episodes/" + index + "/columns/" + encodeURIComponent(feature.name);
      if (!this.cache.has(path)) this.cache.set(path, get(path).then((r) => r.arrayBuffer()).then((b) => typed(b, feature)));
      return this.cache.get(path);
    }
    link(index) { return "#/episode/" + index; }
    home() { return "#/"; }
  }

  class Static {
    constructor(boot) { this.live = false; this.boot = boot; this.cache = new Map(); }
    async set() { return this.boot.set; }
    async check() { return this.boot.check; }
    async list(from, count, text, only) {
      text = text.trim().toLowerCase();
      const rows = (this.boot.list || []).filter((r) =>
        (only !== "errors" || r.errors > 0) && (only !== "warnings" || r.errors + r.warnings > 0) && (only !== "failed" || r.success === "no") &&
        (text === "" || String(r.index) === text || r.task.toLowerCase().includes(text)));
      return { total: (this.boot.list || []).length, matched: rows.length, from, rows: rows.slice(from, from + count) };
    }
    async episode() { return this.boot.episode; }
    async column(index, feature) {
      const name = feature.name;
      if (!this.cache.has(name)) {
        if (this.boot.failed && this.boot.failed[name]) throw new Error(this.boot.failed[name]);
        const text = atob(this.boot.columns[name]), bytes = new Uint8Array(text.length);
        for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
        this.cache.set(name, typed(bytes.buffer, feature));
      }
      return this.cache.get(name);
    }
    link(index) { return "episode_" + String(index).padStart(6, "0") + ".html"; }
    home() { return "index.html"; }
  }

  // typed views the bytes as the type they have. int64 stays exact.
  function typed(buffer, feature) { return feature.type === "int64" ? new BigInt64Array(buffer) : new Float64Array(buffer); }

  pinch.openSource = function (boot) { return boot.live ? new Live() : new Static(boot); };
})();
