// What moves: live parts by server-sent events, tooltips and cursors on charts, zoom, previews, copying. Pages work
// without it. It reads only what the page has, and writes text, never markup that the server did not escape.

const $ = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const announce = text => { const place = $("#announce"); if (place) place.textContent = text; };
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const small = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
const digits = value => (value >= 10 ? whole : small).format(value);

// ---- Live parts --------------------------------------------------------------------------------------------------

/** Changes `old` into `fresh` in place, so that focus, selection and open details stay. */
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  const isEdited = old === document.activeElement && "value" in old;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "open" && name !== "hidden") old.removeAttribute(name);
  }
  for (const { name, value } of [...fresh.attributes]) {
    const isKept = (isEdited && name === "value") || name === "open" || name === "hidden";
    if (!isKept && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.nodeName === "TEXTAREA" || (old.nodeName === "SELECT" && isEdited)) return;
  const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
  after.forEach((child, at) => (at < before.length ? morph(before[at], child) : old.append(child)));
  before.slice(after.length).forEach(child => child.remove());
}

const parsed = html => {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
};

let isPaused = false;
// Parts that came while they could not be shown. The server sends each of them once.
const held = new Map();

function replace(id, html) {
  const old = document.getElementById(id);
  const fresh = parsed(html);
  if (!old || !fresh) return;
  // What a person is reading with the pointer in a menu stays.
  if ((isPaused && old.hasAttribute("data-pausable")) || old.querySelector(".menu[open]")) {
    held.set(id, html);
    return;
  }
  held.delete(id);
  morph(old, fresh);
  cursors.forEach(cursor => cursor.redraw(old));
}

const catchUp = () => [...held].forEach(([id, html]) => replace(id, html));

function follow() {
  const address = document.body.dataset.events;
  const place = $("#live");
  if (!address || !place) return;
  const say = (state, text) => {
    if (place.dataset.state === state) return;
    place.dataset.state = state;
    $(".state", place).textContent = text;
  };
  let source = null;
  const open = () => {
    source = new EventSource(`${address}?page=${encodeURIComponent(location.pathname + location.search)}`);
    source.addEventListener("open", () => say("live", "live"));
    source.addEventListener("error", () => say("lost", "reconnecting, as of"));
    source.addEventListener("fragment", event => {
      say("live", "live");
      const end = event.data.indexOf("\n");
      replace(event.data.slice(0, end), event.data.slice(end + 1));
    });
    // The session has ended: the page says so when it is loaded again.
    source.addEventListener("end", () => { source.close(); say("lost", "ended, as of"); });
  };
  const close = () => { source?.close(); source = null; };
  // A page that is not seen costs nothing.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : source ?? open()));
  addEventListener("pagehide", close);
  if (!document.hidden) open();
}

// ---- Charts ------------------------------------------------------------------------------------------------------

const cursors = [];

/** Tooltip, cursor and zoom on one figure. */
class Cursor {
  constructor(figure) {
    this.figure = figure;
    this.at = null;
    this.from = null;
    this.line = this.add("cursor");
    this.band = this.add("zoom");
    this.tip = this.add("tip");
    figure.addEventListener("pointermove", event => this.moved(event));
    figure.addEventListener("pointerdown", event => this.pressed(event));
    figure.addEventListener("pointerup", event => this.released(event));
    figure.addEventListener("pointerleave", () => { if (this.from === null) this.hide(); });
    figure.addEventListener("keydown", event => this.typed(event));
    figure.addEventListener("focusout", () => this.hide());
  }

  add(name) {
    const element = document.createElement("div");
    element.className = name;
    element.hidden = true;
    this.figure.append(element);
    return element;
  }

  /** The drawing that is visible, with its data. */
  chart() {
    const svg = all("svg.chart", this.figure).find(it => it.getClientRects().length > 0);
    if (!svg?.dataset.times) return null;
    const times = JSON.parse(svg.dataset.times);
    if (times.length === 0) return null;
    const [left, top, right, bottom] = svg.dataset.plot.split(" ").map(Number);
    const [start, end] = svg.dataset.span.split(" ").map(Number);
    const box = svg.getBoundingClientRect();
    const outer = this.figure.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    const x = time => box.left - outer.left + (left + (right - left) * (time - start) / Math.max(end - start, 1)) * scale;
    const time = clientX => {
      const part = ((clientX - box.left) / scale - left) / Math.max(right - left, 1);
      return start + Math.min(Math.max(part, 0), 1) * (end - start);
    };
    const nearest = moment => times.reduce((best, it, at) =>
      Math.abs(it - moment) < Math.abs(times[best] - moment) ? at : best, 0);
    const y = [box.top - outer.top + top * scale, box.top - outer.top + bottom * scale];
    return { svg, times, series: JSON.parse(svg.dataset.series), unit: svg.dataset.unit ?? "", x, y, time, nearest, outer };
  }

  note(at) {
    const lines = (this.figure.querySelector("[data-notes]")?.dataset.notes ?? "").split("\n");
    const line = lines.find(it => it.startsWith(`${at} `));
    return line ? line.slice(line.indexOf(" ") + 1) : "";
  }

  show(at, isSpoken) {
    const chart = this.chart();
    if (!chart) return;
    this.at = Math.min(Math.max(at, 0), chart.times.length - 1);
    const moment = new Date(chart.times[this.at] * 1000).toISOString();
    const isLong = chart.times.at(-1) - chart.times[0] > 86400;
    const clock = isLong ? `${moment.slice(5, 10)} ${moment.slice(11, 16)}` : moment.slice(11, 19).replace(/:00$/, "");
    const figures = chart.series.map(({ name, class: kind, values }) => {
      const value = values[this.at];
      return { name, kind, text: value === null || value === undefined ? "no data" : `${digits(value)}${chart.unit}` };
    });
    const note = this.note(this.at);
    this.tip.replaceChildren(...[
      Object.assign(document.createElement("b"), { textContent: `${clock} UTC` }),
      ...figures.map(({ name, kind, text }) => {
        const row = document.createElement("div");
        row.className = "row";
        const label = document.createElement("span");
        const swatch = document.createElement("i");
        swatch.className = kind;
        label.append(swatch, name);
        row.append(label, text);
        return row;
      }),
      ...(note ? [Object.assign(document.createElement("span"), { className: "dim", textContent: note })] : []),
    ]);
    const x = chart.x(chart.times[this.at]);
    this.line.hidden = this.tip.hidden = false;
    this.line.style.left = `${x}px`;
    this.line.style.top = `${chart.y[0]}px`;
    this.line.style.height = `${chart.y[1] - chart.y[0]}px`;
    const isRight = x + this.tip.offsetWidth + 20 > chart.outer.width;
    this.tip.style.left = `${Math.max(0, isRight ? x - this.tip.offsetWidth - 12 : x + 12)}px`;
    this.tip.style.top = `${chart.y[0]}px`;
    if (isSpoken) announce(`${clock} UTC: ${figures.map(it => `${it.name} ${it.text}`).join(", ")}. ${note}`);
  }

  hide() {
    this.at = null;
    this.line.hidden = this.tip.hidden = this.band.hidden = true;
  }

  /** After the data changed. */
  redraw(changed) {
    if (this.at !== null && changed.contains(this.figure.querySelector(".fragment")) || this.at !== null && this.figure.contains(changed)) {
      this.show(this.at, false);
    }
  }

  moved(event) {
    const chart = this.chart();
    if (!chart || !event.target.closest("svg.chart, .plot")) return;
    this.show(chart.nearest(chart.time(event.clientX)), false);
    if (this.from === null) return;
    const [a, b] = [chart.x(this.from), chart.x(chart.time(event.clientX))];
    this.band.hidden = Math.abs(a - b) < 6;
    this.band.style.left = `${Math.min(a, b)}px`;
    this.band.style.width = `${Math.abs(a - b)}px`;
    this.band.style.top = `${chart.y[0]}px`;
    this.band.style.height = `${chart.y[1] - chart.y[0]}px`;
  }

  pressed(event) {
    const chart = this.chart();
    if (!chart || event.button !== 0 || event.pointerType !== "mouse" || !event.target.closest("svg.chart")) return;
    event.preventDefault();
    chart.svg.focus({ preventScroll: true });
    this.from = chart.time(event.clientX);
    this.figure.setPointerCapture(event.pointerId);
  }

  released(event) {
    const chart = this.chart();
    if (!chart || this.from === null) return;
    const [from, until] = [this.from, chart.time(event.clientX)].sort((a, b) => a - b);
    const isDragged = Math.abs(chart.x(from) - chart.x(until)) >= 6;
    this.from = null;
    this.band.hidden = true;
    if (isDragged && "zoom" in this.figure.dataset) zoom(Math.floor(from), Math.ceil(until));
    else if (!isDragged) this.open(chart);
  }

  /** The refusals behind a point, if there are any. */
  open(chart) {
    const { details, step } = this.figure.dataset;
    const refused = chart.series.find(it => it.name === "refused")?.values[this.at];
    if (!details || !refused) return;
    const address = new URL(details, location.origin);
    const moment = seconds => new Date(seconds * 1000).toISOString().replace(".000", "");
    address.searchParams.set("since", moment(chart.times[this.at]));
    address.searchParams.set("until", moment(chart.times[this.at] + Number(step || 1)));
    location.assign(address.pathname + address.search);
  }

  typed(event) {
    const chart = this.chart();
    if (!chart || !event.target.closest("svg.chart")) return;
    const last = chart.times.length - 1;
    const at = this.at ?? last + 1;
    const page = Math.max(1, Math.round(chart.times.length / 10));
    const moves = { ArrowLeft: at - 1, ArrowRight: this.at === null ? 0 : at + 1, PageUp: at - page, PageDown: at + page, Home: 0, End: last };
    if (event.key in moves) this.show(moves[event.key], true);
    else if (event.key === "Escape") this.hide();
    else if (event.key === "Enter" && this.at !== null) this.open(chart);
    else return;
    event.preventDefault();
  }
}

/** A range of at least ten seconds, in the address of the page. */
function zoom(from, until) {
  const address = new URL(location.href);
  address.searchParams.delete("range");
  address.searchParams.set("from", from);
  address.searchParams.set("until", Math.max(until, from + 10));
  location.assign(address.pathname + address.search);
}

// ---- Small helps -------------------------------------------------------------------------------------------------

/** Marks a field as the server marks it, with the message beside it. */
function mark(field, fresh) {
  const beside = (it) => it?.closest("label")?.querySelector(".problem");
  const message = beside(fresh);
  beside(field)?.remove();
  for (const name of ["aria-invalid", "aria-describedby"]) {
    if (fresh?.hasAttribute(name)) field.setAttribute(name, fresh.getAttribute(name));
    else field.removeAttribute(name);
  }
  if (message) field.after(document.adoptNode(message));
}

/** The linter, the difference and the effect follow what is typed. */
function preview(card) {
  const form = $("form", card);
  // A field of a rule is called `action`, so the property of that name is the field.
  let waiting = 0;
  let last = null;
  const ask = async () => {
    last?.abort();
    last = new AbortController();
    const body = new URLSearchParams(new FormData(form));
    body.set("do", "preview");
    try {
      const response = await fetch(form.getAttribute("action"), { method: "POST", body, signal: last.signal, credentials: "same-origin" });
      if (!response.ok && response.status !== 422) return;
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      for (const id of ["findings", "difference", "effect"]) {
        const [old, fresh] = [document.getElementById(id), page.getElementById(id)];
        if (old && fresh) morph(old, document.adoptNode(fresh));
      }
      all("#effect figure.plot").forEach(watch);
      all("input[name], textarea[name]", form).forEach((field) => mark(field, $(`[data-preview] [name="${field.name}"]`, page)));
    } catch (error) {
      if (error.name !== "AbortError") announce("The preview could not be made; the button Preview tries again.");
    }
  };
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 600); });
}

function watch(figure) {
  if ($(".tip", figure)) return;
  cursors.push(new Cursor(figure));
}

/** Rows of a table that do not contain what is typed are hidden; the form still searches everything. */
function filter(input) {
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of all(`#${CSS.escape(input.dataset.filter)} tbody tr`)) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
    }
  });
}

function copy(button) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent.trimEnd());
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    announce(button.textContent);
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}

function pause(button) {
  button.hidden = false;
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.setAttribute("aria-pressed", String(isPaused));
    button.textContent = isPaused ? "Go on" : "Pause";
    catchUp();
  });
}

function drop(label) {
  const input = $("input[type=file]", label);
  const over = isOver => label.toggleAttribute("data-over", isOver);
  label.addEventListener("dragover", event => { event.preventDefault(); over(true); });
  label.addEventListener("dragleave", () => over(false));
  label.addEventListener("drop", event => {
    event.preventDefault();
    over(false);
    if (event.dataTransfer.files.length === 0) return;
    input.files = event.dataTransfer.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
  });
}

/** A file is sent in the background, so that it stays chosen for another try. */
function upload(form) {
  const [button, input] = [$("[type=submit]", form), $("input[type=file]", form)];
  const max = Number(form.dataset.upload);
  input.addEventListener("change", () => {
    const isLarge = (input.files[0]?.size ?? 0) > max;
    input.setCustomValidity(isLarge ? `Larger than ${whole.format(max / 1048576)} MiB: compress it with gzip, or choose a part of it.` : "");
    input.reportValidity();
  });
  const say = text => {
    const notice = Object.assign(document.createElement("div"), { className: "notice bad", textContent: text });
    notice.setAttribute("role", "alert");
    $("#problem").replaceChildren(notice);
  };
  const send = async () => {
    const response = await fetch(form.getAttribute("action"), { method: "POST", body: new FormData(form), credentials: "same-origin" });
    // The session has ended.
    if (response.redirected) return location.assign(response.url);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const ids = ["problem", "rule-findings", "report"];
    if (!page.getElementById("report")) return say($("h1", page.body)?.textContent ?? "The server refused the form.");
    for (const id of ids) document.getElementById(id).replaceWith(document.adoptNode(page.getElementById(id)));
    all("#report figure.plot").forEach(watch);
    const first = $("#problem .notice, #report .tiles");
    first?.scrollIntoView({ block: "nearest" });
    if (!$("#problem .notice")) announce(`Simulated. ${all("#report .tile").map(it => it.textContent).join(". ")}`);
  };
  form.addEventListener("submit", event => {
    event.preventDefault();
    event.stopPropagation();
    if (button.disabled) return;
    const label = button.textContent;
    button.disabled = true;
    button.textContent = "Simulating…";
    send()
      .catch(() => say("The log could not be sent: the server is not reachable, or refused it before it was read."))
      .finally(() => { button.disabled = false; button.textContent = label; });
  });
  // Rules that are edited are those to try.
  $("[data-chooses] textarea", form)?.addEventListener("input", () => { $("[name=policy][value=edited]", form).checked = true; });
}

document.addEventListener("keydown", event => {
  const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const search = $("[data-search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  } else if (event.key === "Escape") {
    const open = event.target.closest(".menu[open]") ?? $(".menu[open]");
    if (open) { open.open = false; $("summary", open).focus(); }
    else if (isTyping) event.target.blur();
  }
});
document.addEventListener("click", event => {
  for (const menu of all(".menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("toggle", catchUp, true);
// A form is sent once.
document.addEventListener("submit", event => {
  if (event.target.getAttribute("method") !== "post") return;
  if (event.target.dataset.sent) event.preventDefault();
  else event.target.dataset.sent = "1";
});
addEventListener("pageshow", () => all("form[data-sent]").forEach(form => delete form.dataset.sent));

// Where the navigation is a row, the current page is in sight.
const pages = $(".side nav");
const current = $(".side nav [aria-current]");
if (pages && current && pages.scrollWidth > pages.clientWidth) {
  pages.scrollLeft = current.offsetLeft - pages.offsetLeft - (pages.clientWidth - current.offsetWidth) / 2;
}

all("figure.plot").forEach(watch);
all("[data-preview]").forEach(preview);
all("[data-filter]").forEach(filter);
all("[data-copy]").forEach(copy);
all("[data-pause]").forEach(pause);
all("[data-drop]").forEach(drop);
all("[data-upload]").forEach(upload);
follow();
