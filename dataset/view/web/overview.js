"use strict";
// What is said of the dataset as a whole.
(function () {
  const { h } = pinch;
  const words = { error: "error", warn: "warning", note: "note" };

  function fact(value, name) { return h("div.fact", {}, h("b", {}, value), h("span.soft", {}, name)); }

  // bars draws how many episodes have which length.
  function bars(set) {
    const { low, high, counts } = set.lengths, most = Math.max(1, ...counts);
    if (counts.length < 2) return null;
    const each = (high - low + 1) / counts.length;
    return h("section.card", {}, h("h3", {}, "Lengths of the episodes"),
      h("div.bars", {}, counts.map((n, i) => h("div.bar", {
        title: n + " episodes of " + Math.round(low + i * each) + " to " + Math.round(low + (i + 1) * each - 1) + " rows",
        style: { height: (n ? Math.max(3, 100 * n / most) : 0) + "%" },
      }))),
      h("div.ends.soft", {}, h("span", {}, pinch.seconds(low / set.fps)), h("span", {}, pinch.seconds(high / set.fps))));
  }

  // findings draws the state of the check and its findings by code.
  function findings(check, source) {
    const box = h("section.card.check", {}, h("h3", {}, "What the check found"));
    if (check.state === "none") box.append(h("p.soft", {}, "No check was asked for."));
    if (check.state === "failed") box.append(h("p.problem", {}, check.error));
    if (check.state === "running") {
      const share = check.total ? check.done / check.total : 0;
      box.append(h("p.soft", {}, "checking" + (check.stage ? ": " + check.stage.toLowerCase() + ", " + check.done + " of " + check.total : " …")),
        h("div.progress", {}, h("div", { style: { width: 100 * share + "%" } })));
    }
    if (check.state !== "done") return box;
    box.append(h("p", {}, ["error", "warn", "note"].map((k) => h("span.tally." + k, {}, pinch.plural(check[words[k] + "s"], words[k])))));
    if (!check.groups.length && !(check.errors + check.warnings + check.notes)) box.append(h("p.good", {}, "Nothing is wrong with it."));
    for (const g of check.groups) {
      box.append(h("div.finding." + g.severity, {},
        h("div", {}, h("b", {}, g.code), g.count > 1 ? h("span.soft", {}, " × " + g.count) : null, g.file ? h("span.soft", {}, " " + g.file) : null),
        h("div", {}, g.message), g.fix ? h("div.fix.soft", {}, g.fix) : null,
        g.episodes.length ? h("div.links", {}, g.episodes.map((e) => h("a", { href: source.link(e) }, "#" + e)), g.more ? h("span.soft", {}, "and more") : null) : null));
    }
    for (const s of check.skipped) box.append(h("p.soft", {}, "not looked at: " + s));
    return box;
  }

  pinch.overview = function (source, set, check) {
    const cameras = set.features.filter((f) => f.group === "video" || f.group === "image");
    const table = h("table", {}, h("tr", {}, ["feature", "type", "shape", "elements"].map((t) => h("th", {}, t))),
      set.features.map((f) => h("tr", {}, h("td", {}, f.name), h("td.soft", {}, f.type), h("td.soft", {}, f.shape.join(" × ")), h("td.soft", {}, f.elements.length > 1 ? f.elements.join(", ") : ""))));
    return h("div.overview", {},
      h("header.top", {}, h("h1", {}, set.name), h("span.soft", {}, "LeRobot " + set.version + (set.robot ? " · " + set.robot : ""))),
      h("section.facts", {}, fact(pinch.count(set.episodes), set.episodes === 1 ? "episode" : "episodes"), fact(pinch.count(set.rows), "rows"), fact(pinch.duration(set.seconds), "of recording"),
        fact(set.fps + " Hz", "rate"), fact(String(cameras.length), cameras.length === 1 ? "camera" : "cameras"), fact(pinch.count(set.tasks.length + set.task_more), "instructions")),
      bars(set), findings(check, source),
      h("section.card", {}, h("h3", {}, "Instructions"), h("ul", {}, set.tasks.map((t) => h("li", {}, t))), set.task_more ? h("p.soft", {}, "and " + set.task_more + " more") : null),
      h("section.card", {}, h("h3", {}, "Features"), table));
  };

  // oneFinding is a line about an episode.
  pinch.oneFinding = function (f, go) {
    const rows = f.frame >= 0 ? "row " + f.frame + (f.frames > 1 ? " to " + (f.frame + f.frames - 1) : "") : "";
    return h("div.finding." + f.severity + (rows ? ".goes" : ""), { onclick: rows ? () => go(f.frame) : undefined },
      h("div", {}, h("b", {}, f.code), h("span.soft", {}, " " + rows + (f.feature ? " " + f.feature : "")), f.count > 1 ? h("span.soft", {}, " × " + f.count) : null),
      h("div", {}, f.message), f.fix ? h("div.fix.soft", {}, f.fix) : null);
  };
})();
