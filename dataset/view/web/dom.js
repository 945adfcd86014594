"use strict";
// Helpers of all other scripts. Text becomes text nodes, never markup.
const pinch = {};

(function () {
  // h makes an element: h("div.card.small", {title: "x", onclick: f}, child, "text").
  pinch.h = function (spec, props, ...children) {
    const [tag, ...classes] = spec.split(".");
    const e = document.createElement(tag || "div");
    if (classes.length) e.className = classes.join(" ");
    for (const [k, v] of Object.entries(props || {})) {
      if (v === undefined || v === null) continue;
      if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
      else if (k === "style") Object.assign(e.style, v);
      else if (k in e && k !== "list") e[k] = v;
      else e.setAttribute(k, v);
    }
    for (const c of children.flat()) if (c !== null && c !== undefined && c !== false) e.append(c);
    return e;
  };

  // number prints a value with five digits, a BigInt whole.
  pinch.number = function (v) {
    if (typeof v === "bigint") return v.toString();
    if (!Number.isFinite(v)) return String(v);
    if (Number.isInteger(v) && Math.abs(v) < 1e7) return String(v);
    const a = Math.abs(v);
    return a >= 1e-3 && a < 1e5 ? String(+v.toPrecision(5)) : v.toExponential(3);
  };

  pinch.seconds = function (s) { return s.toFixed(2) + " s"; };

  pinch.duration = function (s) {
    if (s < 90) return s.toFixed(1) + " s";
    if (s < 5400) return (s / 60).toFixed(1) + " min";
    return (s / 3600).toFixed(s < 36000 ? 1 : 0) + " h";
  };

  // plural writes a number with its word.
  pinch.plural = function (n, one, many) { return pinch.count(n) + " " + (n === 1 ? one : many || one + "s"); };

  pinch.count = function (n) { return n.toLocaleString("en-US"); };

  // color reads a custom property of the style sheet, so that drawings follow the theme.
  pinch.color = function (name) { return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim(); };

  // Colours of curves that differ on light and dark and for colour-blind readers (Okabe and Ito 2008, two of them lightened).
  pinch.palette = ["#3b9ddd", "#e0752d", "#1fa67a", "#cc79a7", "#e2a61c", "#6cc5f0", "#9a8cff", "#a3a83d"];

  // sharpen gives a canvas as many pixels as the screen has under it, and returns its context and size in CSS pixels.
  pinch.sharpen = function (canvas) {
    const dpr = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    if (canvas.width !== Math.round(w * dpr) || canvas.height !== Math.round(h * dpr)) {
      canvas.width = Math.round(w * dpr);
      canvas.height = Math.round(h * dpr);
    }
    const g = canvas.getContext("2d");
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    g.clearRect(0, 0, w, h);
    return [g, w, h];
  };
})();
