"use strict";
// One picture at a time. Whatever the suite says goes into the page as text. An answer counts as given when the server
// has it on the disk; what it has not is sent again until it has.
const $ = id => document.getElementById(id);
const base = location.pathname.replace(/\/?$/, "/");
let item = null, now = 0, waiting = [], sending = false, loading = 0, since = performance.now(), shown = "variant";

function make(tag, attributes, ...inside) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined && value !== null) node.setAttribute(name, value);
  node.append(...inside.filter(one => one !== null && one !== undefined));
  return node;
}

function complain(text) {
  $("alert").textContent = text;
  $("alert").hidden = !text;
}

async function ask(path, body) {
  const posted = body && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(base + path, posted || {});
  const data = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(data.error), { refused: true });
  return data;
}

async function load(query = "") {
  loading += 1;
  try {
    const next = await ask(`item${query}`);
    complain("");
    show(next);
  } catch (error) {
    complain(error.refused ? error.message : "The server does not answer. What you answered is safe; see that it runs, and reload.");
  }
  loading -= 1;
}

function show(next) {
  item = next;
  since = performance.now();
  $("who").textContent = item.rater;
  $("bar").max = Math.max(item.total, 1);
  $("bar").value = item.done;
  $("count").textContent = `${item.done} of ${item.total} answered`;
  $("back").disabled = item.at < 1;
  $("skip").disabled = item.at + 1 >= item.total;
  $("undo").disabled = !item.undo;
  $("work").hidden = item.number === null;
  $("done").hidden = item.number !== null;
  if (item.number === null) {
    $("live").textContent = "All answered.";
    $("done").firstElementChild.focus();
    return;
  }
  document.title = `Review ${item.at + 1} of ${item.total}`;
  drawPanes();
  drawQuestions();
  now = Math.max(0, item.questions.findIndex(one => one.value === null));
  mark(true);
  $("live").textContent = `Picture ${item.at + 1} of ${item.total}`;
  for (const pane of item.panes) if (item.prefetch) new Image().src = `${base}picture/${item.prefetch}/${pane}`;
}

function address(pane) {
  return `${base}picture/${item.number}/${pane}`;
}

function picture(pane) {
  const image = make("img", { src: address(pane), alt: `${pane}${item.label ? `, labelled ${item.label}` : ""}` });
  image.addEventListener("load", () => {
    document.documentElement.style.setProperty("--ratio", image.naturalWidth / image.naturalHeight);
    image.classList.toggle("crisp", image.clientWidth > 2 * image.naturalWidth);
  });
  image.addEventListener("error", () => { image.alt = `the ${pane} cannot be read`; });
  const button = make("button", { type: "button", class: "picture", "aria-label": `${pane}: show it large` }, image);
  button.addEventListener("click", () => zoom(pane));
  return button;
}

function drawPanes() {
  const figures = item.panes.map(pane => {
    const caption = make("figcaption", {}, pane);
    if (pane === "variant") {
      const hold = make("button", { type: "button", class: "hold" }, "Hold: source ", make("kbd", {}, "Space"));
      hold.addEventListener("pointerdown", () => compare(true));
      for (const end of ["pointerup", "pointerleave", "pointercancel"]) hold.addEventListener(end, () => compare(false));
      caption.append(hold);
    }
    return make("figure", { class: pane }, caption, picture(pane));
  });
  const facts = make("dl", { class: "facts" });
  const fact = (name, ...words) => facts.append(make("div", {}, make("dt", {}, name), make("dd", {}, ...words)));
  if (item.label) fact("label", make("b", {}, item.label));
  for (const [type, before, after] of item.edits) fact(type, before ? `${before} → ` : "", make("b", {}, after || "(nothing)"));
  $("panes").style.setProperty("--n", Math.max(figures.length, 1));
  $("panes").replaceChildren(...figures, facts);
  $("texts").replaceChildren(...item.captions.map(([name, text, words]) => {
    const at = words ? text.toLowerCase().indexOf(words.toLowerCase()) : -1;
    const parts = at < 0 ? [text] : [text.slice(0, at), make("mark", {}, text.slice(at, at + words.length)), text.slice(at + words.length)];
    return make("p", { class: "caption" }, make("small", {}, name), ...parts);
  }));
}

function drawQuestions() {
  document.documentElement.style.setProperty("--rest", `${240 + 62 * item.questions.length}px`);
  $("questions").replaceChildren(...item.questions.map((one, place) => {
    const text = make("p", { id: `q${place}` }, one.text);
    const scale = one.values.length > 2;
    const choices = make("div", { class: scale ? "choices scale" : "choices", role: "group", "aria-labelledby": `q${place}` });
    if (one.ends.length) choices.dataset.ends = `1 ${one.ends[0]} … 5 ${one.ends[1]}`;
    if (one.ends.length) choices.append(make("span", {}, one.ends[0]));
    for (const [value, word, key] of one.values) {
      const button = make("button", { type: "button", "aria-pressed": String(one.value === value) }, word, key ? make("kbd", {}, key) : null);
      if (key) button.lastChild.before(" ");
      button.addEventListener("click", () => answer(place, value));
      choices.append(button);
    }
    if (one.ends.length) choices.append(make("span", {}, one.ends[1]));
    const row = make("div", { class: "question", tabindex: "-1" }, text, choices);
    row.addEventListener("focusin", () => { now = place; mark(false); });
    if (one.note !== null && one.value === one.note) row.append(noteField(place));
    return row;
  }));
}

function noteField(place) {
  const one = item.questions[place], field = make("textarea", { maxlength: 2000 });
  field.value = one.text_note;
  const keep = () => {
    if (field.value === one.text_note || !item.questions.includes(one)) return;  // saved, or of another picture by now
    one.text_note = field.value;
    send(place, one.value, field.value);
  };
  field.addEventListener("change", keep);
  field.addEventListener("keydown", event => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      keep();
      onward();
    } else if (event.key === "Escape") field.blur();
    event.stopPropagation();
  });
  return make("label", { class: "note" }, "What is it? Enter saves and goes on.", field);
}

// The question that keys answer.
function mark(focus) {
  const rows = [...$("questions").children];
  rows.forEach((row, place) => row.classList.toggle("now", place === now));
  if (focus && rows[now]) rows[now].focus({ preventScroll: rows[now].getBoundingClientRect().bottom < innerHeight });
  const open = item.questions.some(one => one.value === null);
  $("go").disabled = open;
}

function answer(place, value) {
  const one = item.questions[place], fresh = one.value === null;
  one.value = value;
  send(place, value, one.note === value ? one.text_note : "");
  drawQuestions();
  const asksNote = one.note === value, open = item.questions.findIndex(other => other.value === null);
  now = open < 0 ? place : open;
  mark(!asksNote);
  if (asksNote) {
    $("questions").children[place].querySelector("textarea").focus();
  } else if (open < 0 && fresh) onward();
}

function onward() {
  if (item.questions.every(one => one.value !== null)) waiting.push({ go: true });
  flush();
}

function send(place, value, note) {
  const seconds = (performance.now() - since) / 1000;
  since = performance.now();
  waiting.push({ item: item.number, asked: item.questions[place].asked, value, note, seconds });
  flush();
}

// One after the other, in the order in which they were given.
async function flush() {
  if (sending) return;
  sending = true;
  while (waiting.length) {
    if (waiting[0].go) {
      waiting.shift();
      await load();
      continue;
    }
    try {
      const answer = await ask("answer", waiting[0]);
      item.undo = true;
      $("undo").disabled = false;
      $("bar").value = answer.done;
      $("count").textContent = `${answer.done} of ${answer.total} answered`;
      complain("");
      waiting.shift();
    } catch (error) {
      if (error.refused) {
        complain(error.message);
        waiting = waiting.slice(1).filter(one => !one.go);
      } else {
        complain("Not saved yet: the server does not answer. This page tries again; leave it open.");
        await new Promise(done => setTimeout(done, 1500));
      }
    }
  }
  sending = false;
}

async function undo() {
  if (waiting.length || loading || !item || !item.undo) return;
  loading += 1;
  try {
    const { number } = await ask("undo", {});
    await load(number === null ? "" : `?number=${number}`);
    $("live").textContent = "Taken back.";
  } catch (error) {
    complain(error.message);
  }
  loading -= 1;
}

function compare(on) {
  const image = document.querySelector(".variant img");
  if (image) image.src = address(on ? "source" : "variant");
}

function zoom(pane) {
  shown = pane;
  const image = document.querySelector("#zoom img");
  image.src = address(pane);
  image.alt = pane;
  image.classList.add("crisp");
  document.querySelector("#zoom h2").textContent = pane;
  if (!$("zoom").open) $("zoom").showModal();
}

const steps = { back: () => item.at > 0 && load(`?at=${item.at - 1}`), skip: () => !$("skip").disabled && load(`?at=${item.at + 1}`) };
$("back").addEventListener("click", () => steps.back());
$("skip").addEventListener("click", () => steps.skip());
$("undo").addEventListener("click", undo);
$("go").addEventListener("click", onward);
$("help").addEventListener("click", () => $("keys").showModal());
for (const button of document.querySelectorAll(".close")) button.addEventListener("click", () => button.closest("dialog").close());

document.addEventListener("keydown", event => {
  if (!item || event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "TEXTAREA") return;
  if ((event.key === "Enter" || event.key === " ") && event.target.closest("button")) return;  // presses it
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if ($("zoom").open) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (step) zoom(item.panes[(item.panes.indexOf(shown) + step + item.panes.length) % item.panes.length]);
    return;
  }
  if ($("keys").open || loading) return;
  const doing = pressed(key, event);
  if (!doing) return;
  event.preventDefault();
  doing();
});

// What a key does; null of one that is left to the browser.
function pressed(key, event) {
  const one = item.number === null ? null : item.questions[now];
  const chosen = one && one.values.find(([value, , hint]) => hint.toLowerCase() === key || String(value) === key);
  if (chosen) return () => event.repeat || answer(now, chosen[0]);
  if (key === " " && one && item.panes.length) return () => event.repeat || compare(true);
  if (key === "z" && one && item.panes.length) return () => zoom("variant");
  if (key === "ArrowDown" && one) return () => { now = Math.min(now + 1, item.questions.length - 1); mark(true); };
  if (key === "ArrowUp" && one) return () => { now = Math.max(now - 1, 0); mark(true); };
  if (key === "Enter" && one && !$("go").disabled && !event.repeat) return onward;
  return { ArrowLeft: steps.back, ArrowRight: steps.skip, u: undo, "?": () => $("keys").showModal() }[key] || null;
}
document.addEventListener("keyup", event => { if (event.key === " ") compare(false); });
window.addEventListener("blur", () => compare(false));
window.addEventListener("beforeunload", event => { if (waiting.length) event.preventDefault(); });
load();
