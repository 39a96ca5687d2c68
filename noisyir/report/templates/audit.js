"use strict";
// The table of audited pairs.  Text from the data becomes text nodes only, never markup.

const PAGE_SIZE = 50;
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const documents = data.documents;
const common = new Set(data.common);
const columns = [...document.querySelectorAll(".pairs th")].map((heading) => heading.dataset.key);

const rows = data.rows.query_id.map((_, number) => {
  const row = { number };
  for (const [name, values] of Object.entries(data.rows)) row[name] = values[number];
  row.doc_id = documents.id[row.document];
  row.key = JSON.stringify([row.query_id, row.doc_id]);
  return row;
});

const state = { sort: "p_clean", falling: false, page: 0, open: null, shown: rows };

// A person's verdicts: kept by the browser where it lets a page do so -----------------------------------------

const STORE = `noisyir-audit-${data.id}`;
const verdicts = new Map(readVerdicts());

function readVerdicts() {
  try {
    return Object.entries(JSON.parse(localStorage.getItem(STORE)) ?? {});
  } catch {
    return [];
  }
}

function judge(row, verdict) {
  if (verdict) verdicts.set(row.key, verdict);
  else verdicts.delete(row.key);
  try {
    localStorage.setItem(STORE, JSON.stringify(Object.fromEntries(verdicts)));
  } catch {
    // storage is off or full: the verdicts last until the page is closed
  }
  render();
}

function saveVerdicts() {
  // As noisyir/report/audit_csv.py: a quote mark goes before what a spreadsheet would take for a formula.
  const cell = (text) => `"${(/^'*[=+\-@\t\r\n]/.test(text) ? "'" + text : text).replaceAll('"', '""')}"`;
  const judged = rows.filter((row) => verdicts.has(row.key));
  const lines = judged.map((row) => [row.query_id, row.doc_id, verdicts.get(row.key)].map(cell).join(","));
  const blob = new Blob([["query_id,doc_id,verdict", ...lines, ""].join("\n")], { type: "text/csv" });
  const link = element("a", { href: URL.createObjectURL(blob), download: "judgements.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Which rows, in which order ------------------------------------------------------------------------------------

const collator = new Intl.Collator(undefined, { numeric: true });

function sortValue(row, key) {
  return key === "document" ? documents.title[row.document] || documents.text[row.document] : row[key];
}

function sorted(chosen) {
  const sign = state.falling ? -1 : 1;
  const keyed = chosen.map((row) => [sortValue(row, state.sort), row]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null); // rows without a value come last
    return sign * (typeof a === "number" ? a - b : collator.compare(a.slice(0, 60), b.slice(0, 60)));
  });
  return keyed.map(([, row]) => row);
}

function haystack(row) {
  const document = [documents.id, documents.title, documents.text].map((texts) => texts[row.document]);
  return (row.haystack ??= [row.query_id, row.source ?? "", row.query, ...document].join("\n").toLowerCase());
}

function update() {
  const terms = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const [verdict, source] = [byId("verdict").value, byId("source")?.value ?? ""];
  const chosen = rows.filter(
    (row) =>
      (!source || row.source === source) &&
      (!verdict || row.verdict === verdict || verdict === (verdicts.has(row.key) ? "mine" : "open")) &&
      terms.every((term) => haystack(row).includes(term)),
  );
  state.shown = sorted(chosen);
  state.page = 0;
  if (!state.shown.includes(state.open)) state.open = null;
  render();
}

function sortBy(key) {
  const numbers = key === "score"; // the highest score is the most suspect
  state.falling = state.sort === key ? !state.falling : numbers;
  state.sort = key;
  update();
}

// Drawing -------------------------------------------------------------------------------------------------------

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const fold = (word) => word.toUpperCase().toLowerCase().replaceAll("ς", "σ"); // as Python's casefold
const wordsOf = (text) => new Set((text.match(/[\p{L}\p{N}\p{M}]+/gu) ?? []).map(fold));

function marked(text, others) {
  // split by a group: words are at odd places
  return text.split(/([\p{L}\p{N}\p{M}]+)/u).map((part, place) => {
    const shared = place % 2 && others.has(fold(part)) && !common.has(fold(part));
    return shared ? element("mark", {}, part) : part;
  });
}

function cells(row) {
  const yours = verdicts.get(row.key);
  const title = documents.title[row.document];
  const start = documents.text[row.document].slice(0, 240);
  const isOpen = row === state.open;
  const open = { class: "open two-lines", type: "button", "aria-expanded": isOpen, "aria-controls": isOpen ? "detail" : null };
  const make = {
    verdict: () => [
      element("span", { class: `says ${row.verdict}` }, row.verdict),
      yours ? element("span", { class: "yours" }, `you: ${yours}`) : null,
    ],
    p_clean: () => [row.chance],
    score: () => [row.score.toFixed(2)],
    rank: () => [row.rank === null ? "–" : row.rank.toLocaleString("en")],
    source: () => [element("span", { class: "two-lines" }, row.source ?? "–")],
    query: () => [element("button", open, row.query)],
    document: () => [element("span", { class: "two-lines" }, title ? element("b", {}, `${title} `) : null, start)],
  };
  const numbers = new Set(["p_clean", "score", "rank"]);
  return columns.map((key) => element("td", { class: numbers.has(key) ? "num" : null }, ...make[key]().filter(Boolean)));
}

function card(number, heading, queryWords, ...badges) {
  const [title, text, length] = [documents.title, documents.text, documents.length].map((values) => values[number]);
  const cut = length > text.length ? `Cut: ${length.toLocaleString("en")} characters in all.` : "";
  return element(
    "article",
    { class: "card" },
    element("h4", {}, `${heading} `, element("span", { class: "id" }, documents.id[number]), ...badges),
    title ? element("p", { class: "title" }, ...marked(title, queryWords)) : null,
    element("p", { class: "body", tabindex: 0 }, ...marked(text, queryWords)),
    cut ? element("p", { class: "note" }, cut) : null,
  );
}

function detail(row) {
  const queryWords = wordsOf(row.query);
  const documentWords = wordsOf(`${documents.title[row.document]}\n${documents.text[row.document]}`);
  const yours = verdicts.get(row.key);
  const choice = (verdict, label, key) =>
    element("button", { type: "button", "data-judge": verdict, "aria-pressed": verdict ? yours === verdict : null,
                        onclick: () => judge(row, verdict) }, `${label} `, element("kbd", {}, key));
  const query = element("article", { class: "card" },
    element("h4", {}, "query ", element("span", { class: "id" }, row.query_id)),
    element("p", { class: "body" }, ...marked(row.query, documentWords)));
  const others = row.better.map(([number, similarity]) =>
    card(number, `similarity ${similarity.toFixed(3)}`, queryWords, number === row.replacement ? suggested() : ""));
  if (row.replacement !== null && !row.better.some(([number]) => number === row.replacement))
    others.push(card(row.replacement, "document", queryWords, suggested()));
  const own = row.similarity === null ? "this pair's document" : `this pair's document, similarity ${row.similarity.toFixed(3)}`;
  return element("tr", { class: "detail", id: "detail" }, element("td", { colspan: columns.length },
    element("p", { class: "why" }, row.reason),
    element("p", { class: "measures" }, measures(row)),
    element("div", { class: "judge", role: "group", "aria-label": "Your verdict" }, "Your verdict:",
      choice("clean", "clean", "c"), choice("wrong", "wrong", "w"), choice("", "clear", "u")),
    element("div", { class: "beside" }, query, card(row.document, own, queryWords)),
    others.length ? element("h3", {}, row.better.length ? "Documents that fit the query better" : "Instead") : null,
    element("div", { class: "others" }, ...others)));
}

const suggested = () => element("span", { class: "best" }, "suggested replacement");

function measures(row) {
  const known = [`Called ${row.verdict}`, `chance of being right ${row.chance}`, `score ${row.score}`];
  if (row.rank !== null) known.push(`rank ${row.rank.toLocaleString("en")}`);
  if (row.duplicates) known.push(`${row.duplicates} other document${row.duplicates > 1 ? "s have" : " has"} the same words`);
  return `${known.join(" · ")}. Shared words are marked, common ones left out.`;
}

function render() {
  const pages = Math.max(1, Math.ceil(state.shown.length / PAGE_SIZE));
  const start = state.page * PAGE_SIZE;
  const drawn = [];
  for (const row of state.shown.slice(start, start + PAGE_SIZE)) {
    const chosen = row === state.open;
    drawn.push(element("tr", { class: chosen ? "pair chosen" : "pair", "data-row": row.number }, ...cells(row)));
    if (chosen) drawn.push(detail(row));
  }
  const focused = focusMark();
  byId("rows").replaceChildren(...drawn);
  if (focused) document.querySelector(focused)?.focus({ preventScroll: true });
  for (const heading of document.querySelectorAll(".pairs th")) {
    if (heading.dataset.key === state.sort) heading.ariaSort = state.falling ? "descending" : "ascending";
    else heading.removeAttribute("aria-sort");
  }
  const end = Math.min(start + PAGE_SIZE, state.shown.length);
  byId("count").textContent = state.shown.length
    ? `Pairs ${(start + 1).toLocaleString("en")} to ${end.toLocaleString("en")} of ${state.shown.length.toLocaleString("en")}`
    : "No pair fits these choices.";
  byId("page").value = state.page + 1;
  byId("page").max = pages;
  byId("pages").textContent = `of ${pages.toLocaleString("en")}`;
  byId("back").disabled = state.page === 0;
  byId("on").disabled = state.page === pages - 1;
  byId("judged").textContent = verdicts.size.toLocaleString("en");
  byId("save").disabled = verdicts.size === 0;
}

function focusMark() {
  // drawing anew must not lose the keyboard's place
  const at = document.activeElement;
  if (!byId("rows").contains(at)) return null;
  if (at.dataset.judge !== undefined) return `[data-judge="${at.dataset.judge}"]`;
  return `tr[data-row="${at.closest("tr.pair")?.dataset.row ?? state.open.number}"] .open`;
}

// Moving about --------------------------------------------------------------------------------------------------

function toPage(page) {
  const last = Math.max(0, Math.ceil(state.shown.length / PAGE_SIZE) - 1);
  state.page = Math.min(Math.max(0, page || 0), last);
  render();
}

function toggle(row) {
  state.open = state.open === row ? null : row;
  render();
}

function step(by) {
  const place = state.open ? state.shown.indexOf(state.open) + by : state.page * PAGE_SIZE;
  if (place < 0 || place >= state.shown.length) return;
  state.open = state.shown[place];
  toPage(Math.floor(place / PAGE_SIZE));
  const line = document.querySelector("tr.chosen");
  line.querySelector(".open").focus({ preventScroll: true });
  line.scrollIntoView({ block: "start" });
}

const keys = {
  j: () => step(1),
  k: () => step(-1),
  c: () => state.open && judge(state.open, "clean"),
  w: () => state.open && judge(state.open, "wrong"),
  u: () => state.open && judge(state.open, ""),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox]), select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !byId("keys").checked) return;
  if (Object.hasOwn(keys, event.key)) {
    event.preventDefault();
    keys[event.key]();
  }
});
byId("rows").addEventListener("click", (event) => {
  const line = event.target.closest("tr.pair");
  if (line && !getSelection().toString()) toggle(rows[line.dataset.row]);
});
for (const heading of document.querySelectorAll(".pairs th")) heading.addEventListener("click", () => sortBy(heading.dataset.key));
for (const id of ["search", "verdict", "source"]) byId(id)?.addEventListener("input", update);
document.querySelector(".tools").addEventListener("submit", (event) => event.preventDefault());
byId("save").addEventListener("click", saveVerdicts);
byId("back").addEventListener("click", () => toPage(state.page - 1));
byId("on").addEventListener("click", () => toPage(state.page + 1));
byId("page").addEventListener("change", (event) => toPage(event.target.valueAsNumber - 1));

const listed = [...document.querySelectorAll("td[data-source]")].map((cell) => cell.dataset.source);
const sources = [...new Set([...listed, ...rows.map((row) => row.source)])].filter((source) => source !== null);
byId("source")?.append(...sources.sort(collator.compare).map((source) => element("option", { value: source }, source)));
for (const cell of document.querySelectorAll("td[data-source]")) {
  const show = () => {
    byId("source").value = cell.dataset.source;
    update();
    byId("pairs").scrollIntoView();
  };
  cell.replaceChildren(element("button", { type: "button", class: "link", onclick: show }, cell.dataset.source));
}
byId("app").hidden = false;
render();
