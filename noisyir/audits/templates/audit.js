// The page's tables; texts.js stands before it.

const PAGE_SIZE = 50;
const documents = data.documents;
const collator = new Intl.Collator(undefined, { numeric: true });

function rowsOf(table) {
  return table.query_id.map((_, number) => {
    const row = { number };
    for (const [name, values] of Object.entries(table)) row[name] = values[number];
    row.doc_id = documents.id[row.document];
    return row;
  });
}

// Lower case without accents, to search in
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

// A table that is searched, sorted and paged through, whose rows open ---------------------------------------------

class Listing {
  // prefix: of the ids of its elements; noun: what its rows are called
  // highestFirst: keys that a first click sorts by falling values
  // fits(row): whether the row is chosen; texts(row): what is searched; sortValue(row, key); cells(row); detail(row)
  constructor(prefix, noun, rows, start, { highestFirst, fits, texts, sortValue, cells, detail }) {
    Object.assign(this, { prefix, noun, rows, highestFirst, fits, texts, sortValue, cells, detail, ...start });
    Object.assign(this, { page: 0, open: null, shown: rows, drawn: () => {} });
    this.body = this.part("rows");
    this.headings = [...this.body.closest("table").querySelectorAll("th")];
    this.columns = this.headings.map((heading) => heading.dataset.key);
    this.listen();
  }

  part(name) {
    return byId(this.prefix + name);
  }

  listen() {
    this.body.addEventListener("click", (event) => {
      const line = event.target.closest("tr.pair");
      if (line && !getSelection().toString()) this.toggle(this.rows[line.dataset.row]);
    });
    for (const heading of this.headings) heading.addEventListener("click", () => this.sortBy(heading.dataset.key));
    const tools = this.part("search").closest(".tools");
    for (const control of tools.querySelectorAll("input, select")) control.addEventListener("input", () => this.update());
    tools.addEventListener("submit", (event) => event.preventDefault());
    this.part("back").addEventListener("click", () => this.toPage(this.page - 1));
    this.part("on").addEventListener("click", () => this.toPage(this.page + 1));
    this.part("page").addEventListener("change", (event) => this.toPage(event.target.valueAsNumber - 1));
  }

  start() {
    this.part("app").hidden = false;
    this.render();
  }

  // Which rows, in which order

  update() {
    const terms = plain(this.part("search").value).split(/\s+/).filter(Boolean);
    this.shown = this.sorted(this.rows.filter((row) => this.fits(row) && terms.every((term) => this.haystack(row).includes(term))));
    this.page = 0;
    if (!this.shown.includes(this.open)) this.open = null;
    this.render();
  }

  haystack(row) {
    return (row.haystack ??= this.texts(row).filter(Boolean).map(plain).join("\n"));
  }

  sorted(chosen) {
    const sign = this.falling ? -1 : 1;
    const keyed = chosen.map((row) => [this.sortValue(row, this.sort), row]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null); // rows without a value come last
      return sign * (typeof a === "number" ? a - b : collator.compare(a.slice(0, 60), b.slice(0, 60)));
    });
    return keyed.map(([, row]) => row);
  }

  sortBy(key) {
    this.falling = this.sort === key ? !this.falling : this.highestFirst.includes(key);
    this.sort = key;
    this.update();
  }

  // Drawing

  render() {
    const pages = Math.max(1, Math.ceil(this.shown.length / PAGE_SIZE));
    const start = this.page * PAGE_SIZE;
    const lines = [];
    for (const row of this.shown.slice(start, start + PAGE_SIZE)) {
      const chosen = row === this.open;
      lines.push(element("tr", { class: chosen ? "pair chosen" : "pair", "data-row": row.number }, ...this.line(row)));
      if (chosen) lines.push(element("tr", { class: "detail", id: this.prefix + "detail" },
        element("td", { colspan: this.columns.length }, ...this.detail(row))));
    }
    const focused = this.focusMark();
    this.body.replaceChildren(...lines);
    clipLong(this.body);
    if (focused) this.body.querySelector(focused)?.focus({ preventScroll: true });
    for (const heading of this.headings) {
      if (heading.dataset.key === this.sort) heading.ariaSort = this.falling ? "descending" : "ascending";
      else heading.removeAttribute("aria-sort");
    }
    const number = (value) => value.toLocaleString("en");
    const end = Math.min(start + PAGE_SIZE, this.shown.length);
    this.part("count").textContent = this.shown.length
      ? `${this.noun}s ${number(start + 1)} to ${number(end)} of ${number(this.shown.length)}`
      : `No ${this.noun.toLowerCase()} fits these choices.`;
    this.part("page").value = this.page + 1;
    this.part("page").max = pages;
    this.part("pages").textContent = `of ${number(pages)}`;
    this.part("back").disabled = this.page === 0;
    this.part("on").disabled = this.page === pages - 1;
    this.drawn();
  }

  line(row) {
    const isOpen = row === this.open;
    const open = { class: "open two-lines", type: "button", "aria-expanded": isOpen,
                   "aria-controls": isOpen ? this.prefix + "detail" : null };
    const made = { ...this.cells(row), query: [element("button", open, row.query)] };
    return this.headings.map((heading) =>
      element("td", { class: heading.className || null, "data-label": heading.textContent }, ...(made[heading.dataset.key] ?? [row[heading.dataset.key] ?? "–"]).filter((part) => part !== null)));
  }

  focusMark() {
    // drawing again must not lose the keyboard's place
    const at = document.activeElement;
    if (!this.body.contains(at)) return null;
    if (at.dataset.judge !== undefined) return `[data-judge="${at.dataset.judge}"]`;
    return `tr[data-row="${at.closest("tr.pair")?.dataset.row ?? this.open.number}"] .open`;
  }

  // Moving about

  toPage(page) {
    const last = Math.max(0, Math.ceil(this.shown.length / PAGE_SIZE) - 1);
    this.page = Math.min(Math.max(0, page || 0), last);
    this.render();
  }

  toggle(row) {
    this.open = this.open === row ? null : row;
    this.render();
  }

  step(by) {
    this.goTo(this.shown[this.open ? this.shown.indexOf(this.open) + by : this.page * PAGE_SIZE]);
  }

  goTo(row) {
    const place = this.shown.indexOf(row);
    if (place < 0) return; // beyond an end, or not among those chosen
    this.open = row;
    this.toPage(Math.floor(place / PAGE_SIZE));
    const line = this.body.querySelector("tr.chosen");
    line.querySelector(".open").focus({ preventScroll: true });
    line.scrollIntoView({ block: "start" });
  }
}

// Drawing texts -------------------------------------------------------------------------------------------------

const firstWords = (number) => documents.title[number] || documents.text[number];
const documentTexts = (number) => [documents.id, documents.title, documents.text].map((texts) => texts[number]);

function opening(number) {
  const title = documents.title[number];
  const start = documents.text[number].slice(0, 240);
  return element("span", { class: "two-lines" }, title ? element("b", {}, `${title} `) : null, start);
}

const isCode = (text) => (text.match(/[(){}[\]=;_<>]/g)?.length ?? 0) > text.length / 40;

function queryCard(row, others) {
  return element("article", { class: "card" },
    element("h3", {}, "query ", element("span", { class: "id" }, row.query_id)),
    element("p", { class: "body" }, ...marked(row.query, others)));
}

function card(number, heading, queryWords, ...badges) {
  const [title, text, length] = [documents.title, documents.text, documents.length].map((values) => values[number]);
  const cut = length > text.length ? `Cut: ${length.toLocaleString("en")} characters in all.` : "";
  return element(
    "article",
    { class: "card" },
    element("h3", {}, `${heading} `, element("span", { class: "id" }, documents.id[number]), ...badges),
    title ? element("p", { class: "title" }, ...marked(title, queryWords)) : null,
    element("p", { class: isCode(text) ? "body mono" : "body", tabindex: 0 }, ...marked(text, queryWords)),
    cut ? element("p", { class: "note" }, cut) : null,
  );
}

// A person's verdicts: kept by the browser where it lets a page do so -----------------------------------------

const STORE = `noisyir-audit-${data.id}`;
const verdicts = new Map(readVerdicts()); // of a row's key: { verdict, replacement: id of a document or null, at: time }
const undone = []; // what was said before: a list of [row, verdict] for each answer, the last one last

function readVerdicts() {
  try {
    const kept = Object.entries(JSON.parse(localStorage.getItem(STORE)) ?? {});
    return kept.map(([key, said]) => [key, typeof said === "string" ? { verdict: said, replacement: null, at: null } : said]);
  } catch {
    return [];
  }
}

function judge(row, verdict, replacement = null) {
  judgeAll([row], verdict, replacement);
}

function judgeAll(some, verdict, replacement = null) {
  undone.push(some.map((row) => [row, verdicts.get(row.key)]));
  const said = verdict ? { verdict, replacement, at: new Date().toISOString() } : undefined;
  keep(some.map((row) => [row, said]));
}

function keep(said) {
  for (const [row, verdict] of said) {
    if (verdict) verdicts.set(row.key, verdict);
    else verdicts.delete(row.key);
  }
  try {
    localStorage.setItem(STORE, JSON.stringify(Object.fromEntries(verdicts)));
  } catch {
    // storage is off or full: the verdicts last until the page is closed
  }
  pairs.render();
}

function undo() {
  if (!undone.length) return;
  const before = undone.pop();
  keep(before);
  pairs.goTo(before[0][0]);
}

function saveVerdicts() {
  // No column weight: nobody drew these pairs at random, so they tell nothing of others.
  const judged = rows.filter((row) => verdicts.has(row.key)).map((row) => {
    const { verdict, replacement, at } = verdicts.get(row.key);
    return [row.query_id, row.doc_id, verdict, replacement ?? "", at ?? ""];
  });
  saveCsv("judgements.csv", [["query_id", "doc_id", "verdict", "replacement", "at"], ...judged]);
}

function saveChosen() {
  const chosen = pairs.shown.map((row) => [row.query_id, row.doc_id, row.query, documents.text[row.document], row.verdict ?? "",
    String(row.suspicion), row.reason, verdicts.get(row.key)?.verdict ?? ""]);
  saveCsv("chosen.csv", [["query_id", "doc_id", "query", "document", "verdict", "suspicion", "reason", "by_you"], ...chosen]);
}

function saveCsv(name, lines) {
  // As noisyir/audits/files.py: a quote mark goes before what a spreadsheet would take for a formula.
  const cell = (text) => `"${(/^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text) ? "'" + text : text).replaceAll('"', '""')}"`;
  const [heading, ...rest] = lines;
  download(name, [[heading.join(","), ...rest.map((line) => line.map(cell).join(",")), ""].join("\n")], "text/csv");
}

// How many pairs may be kept: the bounds, where there are any, hold together ------------------------------------

function boundOfKept() {
  const { kept, bound, confidence, condition } = data.keeping;
  const place = byId("keep").value;
  const share = (value) => `${(100 * value).toFixed(1)} %`;
  byId("keep").setAttribute("aria-valuetext", `${kept[place].toLocaleString("en")} pairs`);
  const start = condition ? `${condition[0].toUpperCase()}${condition.slice(1)}keep` : "Keep";
  byId("bound").replaceChildren(
    `${start} the ${kept[place].toLocaleString("en")} pairs with the lowest score (${share(kept[place] / kept.at(-1))}): at most `,
    element(condition ? "span" : "strong", {}, share(bound[place])), ` of these are wrong, with ${100 * confidence} % confidence.`);
}

if (data.keeping) {
  const { kept, bound } = data.keeping;
  byId("slider").hidden = false;
  byId("keep").max = kept.length - 1;
  byId("keep").value = bound.findLastIndex((share) => share <= Math.max(0.05, Math.min(...bound)));
  byId("keep").addEventListener("input", boundOfKept);
  boundOfKept();
}

// The audited pairs -----------------------------------------------------------------------------------------------

const rows = rowsOf(data.rows);
for (const row of rows) row.key = JSON.stringify([row.query_id, row.doc_id]);

const SAID = { clean: "right", wrong: "wrong", unclear: "unsure" }; // the files' words, and people's

function cells(row) {
  const yours = verdicts.get(row.key);
  return {
    verdict: [
      element("span", { class: `says ${row.verdict ?? ""}` }, SAID[row.verdict] ?? row.verdict ?? "–"),
      yours ? element("span", { class: "yours" }, `you: ${SAID[yours.verdict]}${yours.replacement === null ? "" : ", replaced"}`) : null,
    ],
    suspicion: [meter(row)],
    p_clean: [row.chance],
    source: [element("span", { class: "two-lines" }, row.source ?? "–")],
    document: [opening(row.document)],
  };
}

const fileRows = JSON.parse(byId("app").dataset.fileRows); // of the user's file, in the order of rows; perhaps none
const placeOf = (row) => (row.number + 1).toLocaleString("en"); // rows come with the most suspicious first

function meter(row) {
  return element("span", { class: "meter", style: `--share: ${row.suspicion}` }, element("span", {}, placeOf(row)));
}

const words = (number) => wordsOf(`${documents.title[number]}\n${documents.text[number]}`);

function answers(row, ...more) {
  const yours = verdicts.get(row.key);
  const choice = (verdict) =>
    element("button", { type: "button", "data-judge": verdict, "aria-pressed": yours?.verdict === verdict,
                        onclick: () => judge(row, verdict) }, `${SAID[verdict]} `, element("kbd", {}, SAID[verdict][0]));
  const clear = yours && element("button", { type: "button", "data-judge": "", onclick: () => judge(row, "") }, "clear");
  return element("div", { class: "judge", role: "group", "aria-label": "Your verdict" }, "Your verdict:",
    choice("clean"), choice("wrong"), choice("unclear"), clear ?? "", ...more);
}

const linkTo = (row) => `#pair=${[row.query_id, row.doc_id].map(encodeURIComponent).join(",")}`;

function instead(row, number) {
  return [element("button", { type: "button", "data-judge": `instead ${number}`, class: "accept",
                                     "aria-pressed": verdicts.get(row.key)?.replacement === documents.id[number],
                                     onclick: () => judge(row, "wrong", documents.id[number]) },
    "wrong, and this one is right ", number === row.replacement ? element("kbd", {}, "a") : "")];
}

function detail(row) {
  const queryWords = wordsOf(row.query);
  const other = (number, heading) => card(number, heading, queryWords, ...instead(row, number));
  const others = row.better.map(([number, similarity]) => other(number, `similarity ${similarity.toFixed(3)}`));
  if (row.replacement !== null && !row.better.some(([number]) => number === row.replacement))
    others.push(other(row.replacement, "document"));
  const own = row.similarity === null ? "this pair's document" : `this pair's document, similarity ${row.similarity.toFixed(3)}`;
  return [
    element("p", { class: "why" }, row.reason),
    element("p", { class: "measures" }, measures(row)),
    answers(row, element("a", { href: linkTo(row) }, "link to this pair"), sameQuery(row)),
    element("div", { class: "beside" }, queryCard(row, words(row.document)), card(row.document, own, queryWords)),
    others.length ? element("h3", {}, row.better.length ? "Documents that are more like the query" : "Instead") : null,
    element("div", { class: "others" }, ...others),
  ];
}

let only = null; // the pairs of one query, or of a bar of the histogram: { name, fits }

function sameQuery(row) {
  const count = rows.filter((other) => other.query_id === row.query_id).length;
  if (count < 2 || only) return "";
  return element("button", { type: "button", class: "link", onclick: () => chooseOnly({ name: "This query", fits: (other) => other.query_id === row.query_id }) }, `all ${count} pairs of this query`);
}

function chooseOnly(chosen) {
  only = chosen;
  byId("only").hidden = !only;
  byId("only").textContent = `${only?.name} only \u2715`;
  update();
}

function measures(row) {
  const known = [`Place ${placeOf(row)} of ${data.pairs.toLocaleString("en")} by suspicion`, `score ${row.score}`];
  if (fileRows[row.number]) known.push(`row ${fileRows[row.number]} of the file`);
  if (row.verdict !== null) known.push(`called ${SAID[row.verdict] ?? row.verdict}`);
  if (row.p_clean !== null) known.push(`chance of being right ${row.chance}${data.condition}`);
  if (row.rank !== null) known.push(`rank ${row.rank.toLocaleString("en")}`);
  if (row.duplicates) known.push(`${row.duplicates} other document${row.duplicates > 1 ? "s have" : " has"} the same words`);
  return `${known.join(" · ")}. Shared words are marked, common ones left out.`;
}

function fits(row) {
  const [verdict, yours, source] = ["verdict", "yours", "source"].map((name) => byId(name)?.value ?? "");
  return (!verdict || row.verdict === verdict) && (!yours || yours === (verdicts.has(row.key) ? "judged" : "open"))
    && (!source || row.source === source) && (!only || only.fits(row));
}

const pairs = new Listing("", "Pair", rows, { sort: "suspicion", falling: true }, {
  highestFirst: ["suspicion"], // the highest is the most suspect
  fits,
  texts: (row) => [row.query_id, row.source, row.query, ...documentTexts(row.document)],
  sortValue: (row, key) => (key === "document" ? firstWords(row.document) : row[key]),
  cells,
  detail,
});
pairs.drawn = () => {
  byId("judged").textContent = verdicts.size.toLocaleString("en");
  byId("save").disabled = verdicts.size === 0;
  byId("undo").disabled = undone.length === 0;
  document.querySelector(".bulk summary").textContent = `Actions for ${pairs.shown.length.toLocaleString("en")} pairs`;
  drawStories();
};
// Three pairs as stories: the most suspicious of different queries that nobody judged yet --------------------------

const unjudged = rows.filter((row) => !row.reason.startsWith("Judged "));
const told = [...new Map(unjudged.slice(0, 100).reverse().map((row) => [row.query_id, row])).values()].reverse().slice(0, 3);

function story(row) {
  const queryWords = wordsOf(row.query);
  const best = row.replacement ?? row.better[0]?.[0] ?? null;
  return element("article", { class: "story", tabindex: -1 },
    element("h3", { class: "asked" }, ...marked(row.query, words(row.document))),
    element("p", { class: "measures" }, fileRows[row.number] ? `row ${fileRows[row.number]}: ` : "", row.reason.split(" Best other:")[0]),
    element("div", { class: "others" }, card(row.document, "you say", queryWords),
      best === null ? null : card(best, "the closest other document in your file", queryWords, ...instead(row, best))),
    answers(row, element("a", { href: linkTo(row) }, "link to this pair")));
}

function drawStories() {
  const list = byId("stories-list");
  const at = list.contains(document.activeElement) ? document.activeElement : null;
  const place = at && [[...list.children].indexOf(at.closest(".story")), at.dataset.judge];
  list.replaceChildren(...told.map(story));
  if (place) list.children[place[0]].querySelector(`[data-judge="${place[1] ?? "wrong"}"]`)?.focus({ preventScroll: true });
  byId("stories").hidden = told.length === 0;
  clipLong(list);
}

function openLinked() {
  const [, query, doc] = location.hash.match(/^#pair=([^,]*),(.*)$/) ?? [];
  const row = query !== undefined && rows.find((one) => one.query_id === decodeURIComponent(query) && one.doc_id === decodeURIComponent(doc));
  if (!row) return;
  showAll();
  pairs.goTo(row);
}

function showAll() {
  byId("show-all").form.reset();
  chooseOnly(null);
}

const { columns } = pairs;
const update = () => pairs.update();

const listings = [pairs];
const current = () => listings.find((listing) => listing.body.contains(document.activeElement)) ?? pairs;

function focused() { // the story or the open pair that keys judge
  const card = document.activeElement.closest(".story");
  if (card) return told[[...card.parentElement.children].indexOf(card)];
  return current() === pairs ? pairs.open : null;
}

function judgeOpen(verdict, replacement = null) {
  const row = focused();
  if (!row) return;
  judge(row, verdict, replacement);
  if (row === pairs.open) pairs.step(1);
}

function acceptOpen() {
  const suggestion = focused()?.replacement ?? null;
  if (suggestion !== null) judgeOpen("wrong", documents.id[suggestion]);
}

const keys = {
  j: () => current().step(1),
  k: () => current().step(-1),
  r: () => judgeOpen("clean"),
  w: () => judgeOpen("wrong"),
  u: () => judgeOpen("unclear"),
  a: acceptOpen,
  z: undo,
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox]), select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !byId("keys").checked) return;
  if (Object.hasOwn(keys, event.key)) {
    event.preventDefault();
    keys[event.key]();
  }
});
byId("save").addEventListener("click", saveVerdicts);
byId("undo").addEventListener("click", undo);
byId("export").addEventListener("click", saveChosen);
byId("only").addEventListener("click", () => chooseOnly(null));
byId("show-all").addEventListener("click", (event) => {
  event.preventDefault();
  showAll();
});
for (const button of document.querySelectorAll("[data-bulk]"))
  button.addEventListener("click", () => {
    const [verdict, count] = [button.dataset.bulk, pairs.shown.length];
    if (count && confirm(`Call all ${count.toLocaleString("en")} pairs that are chosen ${SAID[verdict]}? Undo takes it back.`)) judgeAll(pairs.shown, verdict);
  });
byId("command")?.after(" ", copyable("command"));
byId("bars-filter").hidden = false;
for (const bar of document.querySelectorAll("#scores rect.bin"))
  bar.addEventListener("click", () => {
    const [from, to] = [bar.dataset.from, bar.dataset.to].map(parseFloat); // not a number: open to that side
    chooseOnly({ name: "This bar", fits: (row) => !(row.score < from) && !(row.score > to) });
    byId("pairs").scrollIntoView();
  });

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
pairs.start();
openLinked();
addEventListener("hashchange", openLinked);
