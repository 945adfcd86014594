"use strict";
// The page: the list of episodes beside the dataset's overview or one episode.
(function () {
  const { h } = pinch;
  const main = document.getElementById("main"), side = document.getElementById("side");
  const boot = JSON.parse(document.getElementById("boot").textContent);
  const source = pinch.openSource(boot);
  let set, check, list, episode = null, token = 0;

  const help = h("dialog.help", { onclick: () => help.close() }, h("h3", {}, "Keys"),
    h("table", {}, pinch.help.map(([k, what]) => h("tr", {}, h("td", {}, h("kbd", {}, k)), h("td", {}, what)))));
  document.body.append(help);

  function fail(e) { main.replaceChildren(h("div.overview", {}, h("p.problem", {}, e.message || String(e)))); }

  function place() {
    const m = /^#\/episode\/(\d+)(?:\?row=(\d+))?$/.exec(location.hash);
    return m ? { index: +m[1], row: m[2] ? +m[2] : 0 } : null;
  }

  async function show() {
    const mine = ++token, wanted = source.live ? place() : boot.episode ? { index: boot.episode.index, row: 0 } : null;
    if (episode) episode.close();
    episode = pinch.episode = null;
    if (list) list.select(wanted ? wanted.index : -1);
    document.body.classList.toggle("solo", !source.live && !!boot.episode);
    if (!wanted) {
      main.replaceChildren(pinch.overview(source, set, check));
      document.title = set.name;
      return;
    }
    try {
      const data = await source.episode(wanted.index);
      if (mine !== token) return;
      episode = pinch.episode = new pinch.Episode(source, set, data, wanted.row);
      main.replaceChildren(episode.root);
      episode.player.seek(episode.player.row); // now that drawings have a size
      document.title = set.name + ": episode " + data.index;
    } catch (e) {
      if (mine === token) fail(e);
    }
  }

  // follow asks how the check goes until it is over, then shows what it found.
  async function follow() {
    while (check.state === "running") {
      await new Promise((r) => setTimeout(r, 500));
      try { check = await source.check(); } catch (e) { return; } // the server ended
      status();
      if (!episode && !place()) main.replaceChildren(pinch.overview(source, set, check));
    }
    status();
    if (check.state !== "done") return;
    if (list) list.restart();
    if (episode) {
      const data = await source.episode(episode.data.index);
      if (episode && episode.data.index === data.index) {
        episode.setFindings(data.findings);
        const lanes = new pinch.Lanes(data.lanes, episode.player, episode.window);
        episode.lanes.root.replaceWith(lanes.root);
        episode.lanes = lanes;
      }
    }
  }

  const state = h("div.state");
  function status() {
    const text = { none: "not checked", running: "checking " + (check.total ? Math.round(100 * check.done / check.total) + " %" : "…"), failed: "the check failed" }[check.state] ||
      (check.errors + check.warnings ? pinch.plural(check.errors, "error") + ", " + pinch.plural(check.warnings, "warning") : "nothing wrong");
    state.textContent = text;
    state.className = "state " + (check.state === "done" ? (check.errors ? "error" : check.warnings ? "warn" : "good") : "soft");
  }

  document.addEventListener("keydown", (e) => {
    const tag = e.target.tagName;
    if (e.key === "Escape" && tag === "INPUT") { e.target.blur(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey || (tag === "INPUT" && e.target.type !== "range") || tag === "SELECT") return;
    if (e.key === "?") { help.open ? help.close() : help.showModal(); return; }
    if (episode) episode.key(e);
  });

  (async function () {
    try {
      [set, check] = await Promise.all([source.set(), source.check()]);
    } catch (e) { fail(e); return; }
    if (source.live || boot.list) {
      list = new pinch.List(source, set);
      side.append(h("a.title", { href: source.home() }, h("b", {}, set.name), state), list.root,
        h("button.keys", { type: "button", onclick: () => help.showModal() }, "keys: ?"));
    }
    window.addEventListener("hashchange", show);
    status();
    await show();
    follow();
  })();
})();
