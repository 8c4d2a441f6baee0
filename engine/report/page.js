"use strict";
// What the page does: pictures, filters, order, the viewer and the keys. All data goes into the page as text and as
// attributes. Where the page stands is in the URL's hash, and only there: whatever changes writes the hash, and going
// Back, loading or sharing the address reads it.
const form = document.forms[0], list = document.querySelector("#pictures"), viewer = document.querySelector("#viewer");
const more = document.querySelector("#more"), output = form.querySelector("output");
const start = JSON.parse(document.querySelector("#album").textContent);
const FIRST = 6, CHUNK = 12;
const strips = [], frames = [];
let chosen = [], shown = [], drawn = 0, all = false, open = null, masked = null;

// Also called by the files of a large album.
function addStrips(some) {
  for (const strip of some) {
    strips.push(strip);
    strip.frames.forEach((frame, place) => {
      Object.assign(frame, { strip, place, verdict: frame.reason === null ? "accepted" : "rejected" });
      frame.right = frame.answer && (frame.answer[1] ? "right" : "wrong");
      frames.push(frame);
    });
  }
}

function make(tag, attributes, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value) node.setAttribute(name, value);
  node.append(...inside.filter(Boolean));
  return node;
}

function words(frame) {
  frame.words ??= `${frame.caption} ${frame.strip.source} ${frame.strip.label || ""}`.toLowerCase();
  return frame.words;
}

function fits(frame, want) {
  return (!want.type || frame.edits.some(edit => edit[0] === want.type))
    && (!want.value || frame.values.includes(want.value))
    && (!want.class || frame.strip.label === want.class)
    && (!want.verdict || frame.verdict === want.verdict)
    && (!want.failed || frame.failed === want.failed)
    && (!want.answer || frame.right === want.answer)
    && (!want.said || frame.answer?.[0] === want.said)
    && (!want.text || want.text.toLowerCase().split(/\s+/).every(word => words(frame).includes(word)));
}

// The lower a rank, the further in front.
function rank(frame, sort) {
  if (sort === "wrong") return frame.right !== "wrong" ? 2 : frame.verdict === "accepted" ? 0 : 1;
  const name = sort.startsWith("score:") ? sort.slice(6) : null;
  return name === null ? frame.place : frame.scores[name] ?? Infinity;
}

function compare(sort) {
  if (sort === "source") return (a, b) => a.source.localeCompare(b.source, undefined, { numeric: true });
  if (sort === "wrong") return (a, b) => b.wrong - a.wrong || a.place - b.place;
  return (a, b) => (sort.startsWith("score:") ? a.best - b.best : 0) || a.place - b.place;
}

function apply() {
  const want = Object.fromEntries(new FormData(form)), sort = want.sort || form.dataset.order;
  document.body.classList.toggle("masks", want.masks === "on");
  chosen = strips.filter(strip => {
    strip.shown = strip.frames.filter(frame => fits(frame, want)).sort((a, b) => rank(a, sort) - rank(b, sort) || a.place - b.place);
    strip.best = Math.min(...strip.shown.map(frame => rank(frame, sort)));
    strip.wrong = strip.shown.filter(frame => frame.right === "wrong" && frame.verdict === "accepted").length;
    return strip.shown.length;
  }).sort(compare(sort));
  shown = chosen.flatMap(strip => strip.shown);
  list.replaceChildren();
  drawn = 0;
  all = false;
  draw(FIRST);
  document.querySelector("#none").hidden = shown.length > 0;
  output.textContent = `${shown.length} of ${start.variants} variants${frames.length < start.variants ? ", more are loading" : ""}`;
  document.querySelector("#csv").disabled = !shown.length;
  const mask = document.querySelector("#mask");
  if (mask) mask.setAttribute("aria-pressed", want.masks === "on");
  rove(list.querySelector("a.picture"));
}

// Draws so many more of the chosen strips.
function draw(count) {
  const next = chosen.slice(drawn, drawn + Math.max(0, count));
  list.append(...next.map(section));
  drawn += next.length;
  more.hidden = drawn >= chosen.length;
  more.textContent = `show all ${chosen.length} sources`;
}

function section(strip) {
  const masks = strip.mask && "masked", caption = strip.caption;
  const source = make("div", { class: "source" },
    make("h2", {}, strip.label || strip.source, strip.label && make("small", {}, ` ${strip.source}`)),
    make("div", { class: "pair" },
      picture(strip.image, "source", `original ${masks || ""}`), strip.edges && picture([strip.edges], "its edges", "")),
    answer(strip.answer), make("p", {}, caption));
  const node = make("section", { class: "strip" }, source, make("div", { class: "frames" },
    strip.control && make("figure", { class: `control ${verdictOf(strip.control)}` }, picture(strip.control.image, caption, masks || ""), notes(strip.control)),
    ...strip.shown.map(frame => {
      frame.node = make("figure", { class: verdictOf(frame), title: frame.caption, "data-name": frame.name },
        picture(frame.image, frame.caption, masks || ""), notes(frame));
      return frame.node;
    })));
  if (strip.mask) node.style.setProperty("--mask", `url("${strip.mask}")`);
  node.strip = strip;
  return node;
}

const verdictOf = frame => frame.reason === null ? "accepted" : "rejected";

// A picture, small, which opens large.
function picture([small, large], alt, kind) {
  const image = make("img", { src: small, alt: alt || "a picture", loading: "lazy", decoding: "async" });
  return make("a", { class: `picture ${kind}`.trim(), href: large || small }, image);
}

function answer(given) {
  return given && make("p", { class: given[1] ? "good" : "bad" }, given[1] ? `✓ ${given[0]}` : `✗ model says ${given[0]}`);
}

// What stands below a picture.
function notes(frame) {
  const edits = (frame.edits || []).map(([, hue, from, to, score]) => {
    const wording = from && to ? [`${from} → `, make("b", {}, to)] : to ? ["+ ", make("b", {}, to)] : ["− ", make("s", {}, from)];
    return make("div", { class: hue }, ...wording, score === null ? null : make("small", {}, ` ${score.toFixed(2)}`));
  });
  const control = frame.edits ? null : make("div", {}, "control: caption unchanged");
  return make("figcaption", {}, control, ...edits, ...(frame.circumstances || []).map(text => make("div", { class: "other" }, text)),
    answer(frame.answer), frame.reason && make("span", { class: "bad" }, `rejected: ${frame.reason}`));
}

function write(push) {
  const state = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
  if (open) state.set("open", open.name);
  const hash = [...state].length ? `#${state}` : "";
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

function pane(title, [small, large], alt, below) {
  const image = new Image();
  image.alt = alt || title;
  image.onload = () => image.classList.toggle("crisp", image.naturalWidth < image.clientWidth);
  image.src = large || small;
  const box = make("div", { class: `view ${open.strip.mask ? "masked" : ""}` }, image);
  return make("figure", {}, make("h3", {}, title), box, below);
}

// Shows a variant beside its source and control; null closes.
function view(frame) {
  const last = open;
  open = frame;
  if (!frame) {
    if (viewer.open) viewer.close();
    const link = last?.node?.isConnected && last.node.querySelector("a");
    if (link) { rove(link); link.focus(); }
    return;
  }
  const { strip } = frame, { control } = strip, place = shown.indexOf(frame);
  viewer.style.setProperty("--mask", strip.mask ? `url("${strip.mask}")` : "none");
  document.querySelector("#viewed").textContent = strip.label ? `${strip.label}: ${strip.source}` : strip.source;
  document.querySelector("#place").textContent = place < 0 ? "" : `${place + 1} of ${shown.length}`;
  document.querySelector("#wording").textContent = frame.caption;
  const panes = [pane("source", strip.image, "source", answer(strip.answer))];
  if (control) panes.push(pane("control", control.image, strip.caption, notes(control)));
  panes.push(pane("variant", frame.image, frame.caption, notes(frame)));
  viewer.querySelector(".panes").replaceChildren(...panes);
  const table = scores(frame);
  document.querySelector("#scores").hidden = !table;
  viewer.querySelector(".table").replaceChildren(...(table ? [table] : []));
  if (!viewer.open) viewer.showModal();
}

// What each score asks, what it is, and what it has to be; scores that nobody explains are left out.
function scores(frame) {
  const rows = Object.entries(start.words).filter(([name]) => name in frame.scores).map(([name, asks]) => {
    const [least, most] = start.limits[name] || [null, null];
    const bounds = [least === null ? "" : `at least ${least.toFixed(2)}`, most === null ? "" : `at most ${most.toFixed(2)}`];
    return make("tr", { class: name === frame.failed && "bad" }, make("th", { scope: "row" }, asks), make("td", {}, frame.scores[name].toFixed(2)),
      make("td", {}, bounds.filter(Boolean).join(", ")), make("td", {}, name));
  });
  const head = ["what it asks", "score", "to be accepted", "name"].map(text => make("th", { scope: "col" }, text));
  return rows.length && make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}

function move(step) {
  const next = shown[shown.indexOf(open) + step];
  if (next) { view(next); write(false); }
}

function moveSource(step) {
  const next = chosen[chosen.indexOf(open.strip) + step];
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

// A cell that a spreadsheet shows and never computes.
function cell(value) {
  const text = String(value ?? ""), safe = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text) && typeof value !== "number" ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

function csv() {
  const names = [...new Set(shown.flatMap(frame => Object.keys(frame.scores)))].sort();
  const rows = shown.map(frame => [
    frame.name, frame.strip.source, frame.strip.label, frame.values.join("; "), frame.caption, frame.verdict, frame.reason,
    frame.answer?.[0], frame.right, ...names.map(name => frame.scores[name]),
  ]);
  const head = ["file_name", "source", "label", "edits", "caption", "verdict", "reason", "prediction", "answer", ...names];
  return [head, ...rows].map(row => row.map(cell).join(",")).join("\n") + "\n";
}

// The files of a large album, one after another.
function load() {
  const next = start.more.shift();
  if (!next) {
    if (frames.length < start.variants) output.textContent += ": files of this page are missing";
    return;
  }
  const script = make("script", { src: next });
  script.onload = script.onerror = () => {
    const going = all, before = drawn;
    if (!start.more.length) read();
    if (going) { all = true; draw(before - drawn); }
    setTimeout(load);
  };
  document.head.append(script);
}

function goTo(node) {
  node.scrollIntoView();
  node.focus({ preventScroll: true });
}

form.addEventListener("change", () => { apply(); write(!open); });
form.elements.text.addEventListener("input", () => { apply(); write(false); });
form.addEventListener("submit", event => event.preventDefault());
list.addEventListener("click", event => {
  const link = event.target.closest("a.picture");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const { strip } = link.closest(".strip");
  view(strip.shown.find(frame => frame.node.contains(link)) || strip.shown[0]);
  write(true);
});
list.addEventListener("focusin", event => event.target.matches("a.picture") && rove(event.target));
list.addEventListener("keydown", event => {
  const links = [...list.querySelectorAll("a.picture")], here = links.indexOf(document.activeElement);
  const rows = [...list.querySelectorAll(".strip")], row = rows.findIndex(node => node.contains(document.activeElement));
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
  const link = make("a", { href: URL.createObjectURL(new Blob([csv()], { type: "text/csv" })), download: "variants.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
// As one scrolls to its end the list grows; observed anew, as what stays in sight is told once only.
const ahead = new IntersectionObserver(entries => {
  if (all && entries.at(-1).isIntersecting) { draw(CHUNK); watch(); }
}, { rootMargin: "9999999px 0px 1500px" });
function watch() {
  ahead.unobserve(more);
  ahead.observe(more);
}
more.addEventListener("click", () => { all = true; watch(); });
document.addEventListener("click", event => {
  const link = event.target.closest("a.jump, a.shows");
  if (!link) return;
  if (link.matches(".shows")) { requestAnimationFrame(() => goTo(form)); return; }
  event.preventDefault();
  const to = document.querySelector(link.getAttribute("href"));
  goTo(link.matches(".skip") && list.querySelector('a.picture[tabindex="0"]') || to);
});
addStrips(start.strips);
addEventListener("beforeprint", () => { for (const image of list.querySelectorAll("img")) image.loading = "eager"; });
addEventListener("popstate", read);
addEventListener("hashchange", read);
// After Back from another page the browser restores the choices once scripts have run.
addEventListener("pageshow", () => { read(); setTimeout(load, 100); }, { once: true });
addEventListener("pageshow", event => event.persisted && read());
