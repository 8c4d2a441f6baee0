"use strict";
// What the page does: filters, order, the viewer and the keys. Where it stands is in the URL's hash, and only there:
// whatever changes writes the hash, and going Back, loading or sharing the address reads it.
const form = document.forms[0], list = document.querySelector("#pictures"), viewer = document.querySelector("#viewer");
const strips = [...list.querySelectorAll(".strip")].map((node, place) => ({
  node, place, source: node.dataset.source, label: node.dataset.class, box: node.querySelector(".frames"),
}));
const frames = strips.flatMap(strip => [...strip.box.querySelectorAll("figure[data-name]")].map((node, place) => ({
  node, strip, place, ...node.dataset,
  types: JSON.parse(node.dataset.types), values: JSON.parse(node.dataset.values), scores: JSON.parse(node.dataset.scores),
  words: `${node.title} ${strip.source} ${strip.label}`.toLowerCase(),
})));
const of = Map.groupBy ? Map.groupBy(frames, frame => frame.strip) : new Map(strips.map(s => [s, frames.filter(f => f.strip === s)]));
let shown = frames, order = "", open = null, masked = null;

function fits(frame, want) {
  return (!want.type || frame.types.includes(want.type))
    && (!want.value || frame.values.includes(want.value))
    && (!want.class || frame.strip.label === want.class)
    && (!want.verdict || frame.verdict === want.verdict)
    && (!want.failed || frame.failed === want.failed)
    && (!want.answer || frame.answer === want.answer)
    && (!want.text || want.text.toLowerCase().split(/\s+/).every(word => frame.words.includes(word)));
}

// The lower a rank, the further in front.
function rank(frame, sort) {
  if (sort === "wrong") return frame.answer === "wrong" ? 0 : 1;
  const name = sort.startsWith("score:") ? sort.slice(6) : null;
  return name === null ? frame.place : frame.scores[name] ?? Infinity;
}

function compare(sort) {
  if (sort === "source") return (a, b) => a.source.localeCompare(b.source, undefined, { numeric: true });
  if (sort === "wrong") return (a, b) => b.wrong - a.wrong || a.place - b.place;
  return (a, b) => (sort ? a.best - b.best : 0) || a.place - b.place;
}

function apply() {
  const want = Object.fromEntries(new FormData(form)), sort = want.sort || "";
  document.body.classList.toggle("masks", want.masks === "on");
  for (const strip of strips) {
    const its = of.get(strip) || [], fitting = its.filter(frame => fits(frame, want));
    for (const frame of its) frame.node.hidden = true;
    for (const frame of fitting) frame.node.hidden = false;
    strip.node.hidden = !fitting.length;
    strip.best = Math.min(...fitting.map(frame => rank(frame, sort)));
    strip.wrong = fitting.filter(frame => frame.answer === "wrong").length;
    strip.shown = sort || order ? fitting.sort((a, b) => rank(a, sort) - rank(b, sort) || a.place - b.place) : fitting;
    if (sort || order) strip.box.append(...strip.shown.map(frame => frame.node));
  }
  const sorted = [...strips].sort(compare(sort));
  if (sort || order) list.append(...sorted.map(strip => strip.node));
  order = sort;
  shown = sorted.flatMap(strip => strip.shown);
  document.querySelector("#none").hidden = shown.length > 0;
  form.querySelector("output").textContent = `${shown.length} of ${frames.length} variants`;
  document.querySelector("#csv").disabled = !shown.length;
  const mask = document.querySelector("#mask");
  if (mask) mask.setAttribute("aria-pressed", want.masks === "on");
  rove(list.querySelector(".strip:not([hidden]) a.picture"));
}

function write(push) {
  const state = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  if (open) state.set("open", open.name);
  const hash = state.size ?? [...state].length ? `#${state}` : "";
  if (hash === location.hash) return;
  const told = push ? { viewer: Boolean(open) } : history.state;
  history[push ? "pushState" : "replaceState"](told, "", hash || location.pathname + location.search);
}

function read() {
  const state = new URLSearchParams(location.hash.slice(1));
  for (const field of form.elements) {
    if (!field.name) continue;
    const value = state.get(field.name) || "";
    if (field.type === "radio" || field.type === "checkbox") field.checked = field.value === value;
    else field.value = value;
    if (field.tagName === "SELECT" && field.selectedIndex < 0) field.value = "";
  }
  for (const group of form.querySelectorAll("fieldset")) {
    if (!group.querySelector(":checked")) group.querySelector("input").checked = true;
  }
  const keep = masked !== null && masked !== form.elements.masks.checked;  // as it was when the viewer was left
  if (keep) form.elements.masks.checked = masked;
  masked = null;
  apply();
  view(frames.find(frame => frame.name === state.get("open")) || null);
  if (keep) write(false);
}

function pane(title, link, notes) {
  const figure = document.createElement("figure"), head = document.createElement("h3"), box = document.createElement("div");
  const image = new Image();
  head.textContent = title;
  box.className = link.classList.contains("masked") ? "view masked" : "view";
  image.alt = link.firstElementChild.alt;
  image.onload = () => image.classList.toggle("crisp", image.naturalWidth < image.clientWidth);
  image.src = link.href;
  box.append(image);
  figure.append(head, box, ...(notes ? [notes.cloneNode(true)] : []));
  return figure;
}

// Shows a variant beside its source and control; null closes.
function view(frame) {
  const last = open;
  open = frame;
  if (!frame) {
    if (viewer.open) viewer.close();
    const link = last?.node.querySelector("a");
    if (link) { rove(link); link.focus(); }
    return;
  }
  const { node } = frame.strip, control = node.querySelector(".control"), place = shown.indexOf(frame);
  viewer.style.setProperty("--mask", node.style.getPropertyValue("--mask"));
  document.querySelector("#viewed").textContent = frame.strip.label ? `${frame.strip.label}: ${frame.strip.source}` : frame.strip.source;
  document.querySelector("#place").textContent = place < 0 ? "" : `${place + 1} of ${shown.length}`;
  document.querySelector("#wording").textContent = frame.node.title;
  const panes = [pane("source", node.querySelector("a.original"), node.querySelector(".source > p.good, .source > p.bad"))];
  if (control) panes.push(pane("control", control.querySelector("a"), control.querySelector("figcaption")));
  panes.push(pane("variant", frame.node.querySelector("a"), frame.node.querySelector("figcaption")));
  viewer.querySelector(".panes").replaceChildren(...panes);
  if (!viewer.open) viewer.showModal();
}

function move(step) {
  const next = shown[shown.indexOf(open) + step];
  if (next) { view(next); write(false); }
}

function moveSource(step) {
  const sources = [...new Set(shown.map(frame => frame.strip))], next = sources[sources.indexOf(open.strip) + step];
  if (next) { view(next.shown[0]); write(false); }
}

// Back again to where the viewer was opened from, so that Back does not open it once more.
function leave() {
  masked = form.elements.masks?.checked ?? null;
  if (history.state?.viewer) history.back();
  else { view(null); write(false); }
}

// Of all pictures one is a stop of the Tab key; arrows go to the others.
function rove(link) {
  for (const other of list.querySelectorAll('a.picture:not([tabindex="-1"])')) other.tabIndex = -1;
  if (link) link.tabIndex = 0;
}

function csv() {
  const names = [...new Set(shown.flatMap(frame => Object.keys(frame.scores)))].sort();
  const rows = shown.map(frame => [
    frame.name, frame.strip.source, frame.strip.label, frame.values.join("; "), frame.node.title, frame.verdict, frame.reason,
    frame.said, frame.answer, ...names.map(name => frame.scores[name] ?? ""),
  ]);
  const head = ["file_name", "source", "label", "edits", "caption", "verdict", "reason", "prediction", "answer", ...names];
  return [head, ...rows].map(row => row.map(cell => `"${String(cell).replaceAll('"', '""')}"`).join(",")).join("\n") + "\n";
}

form.addEventListener("change", () => { apply(); write(!open); });
form.elements.text.addEventListener("input", () => { apply(); write(false); });
form.addEventListener("submit", event => event.preventDefault());
list.addEventListener("click", event => {
  const link = event.target.closest("a.picture");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const strip = strips.find(strip => strip.node.contains(link));
  view(frames.find(frame => frame.node.contains(link)) || strip.shown[0]);
  write(true);
});
list.addEventListener("focusin", event => event.target.matches("a.picture") && rove(event.target));
list.addEventListener("keydown", event => {
  const links = [...list.querySelectorAll("a.picture")].filter(link => link.offsetParent), here = links.indexOf(document.activeElement);
  const rows = [...list.querySelectorAll(".strip:not([hidden])")], row = rows.findIndex(node => node.contains(document.activeElement));
  const first = node => node?.querySelector("a.picture");
  const to = {
    ArrowRight: () => links[here + 1], ArrowLeft: () => links[here - 1], Home: () => links[0], End: () => links.at(-1),
    ArrowDown: () => first(rows[row + 1]), ArrowUp: () => first(rows[row - 1]),
  }[event.key]?.();
  if (here < 0 || !to) return;
  event.preventDefault();
  to.focus();
});
viewer.addEventListener("cancel", event => { event.preventDefault(); leave(); });
viewer.addEventListener("close", () => open && leave());
viewer.addEventListener("click", event => {
  const box = viewer.getBoundingClientRect(), { clientX: x, clientY: y } = event;
  const beside = event.target === viewer && (x < box.left || x > box.right || y < box.top || y > box.bottom);
  if (beside || event.target.id === "close") leave();
  else if (event.target.dataset.move) move(Number(event.target.dataset.move));
  else if (event.target.id === "mask") form.elements.masks.click();
});
viewer.addEventListener("keydown", event => {
  const does = {
    ArrowRight: () => move(1), ArrowLeft: () => move(-1), ArrowDown: () => moveSource(1), ArrowUp: () => moveSource(-1),
    m: () => form.elements.masks?.click(),
  }[event.key];
  if (does && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); does(); }
});
document.querySelector("#csv").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  link.download = "variants.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
document.querySelector(".skip").addEventListener("click", event => {
  event.preventDefault();
  (list.querySelector('a.picture[tabindex="0"]') || list).focus();
});
rove(null);
addEventListener("popstate", read);
addEventListener("hashchange", read);
// After Back from another page the browser restores the choices once scripts have run.
addEventListener("pageshow", read);
