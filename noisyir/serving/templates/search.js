// The search page; texts.js stands before it.

const NAMES = { hybrid: "The model with BM25", vectors: "The model", bm25: "BM25" };
const number = (value) => value.toFixed(3);
let asked = 0; // searches so far: an answer to an earlier one is not shown

async function call(path, body) {
  const headers = { "content-type": "application/json" };
  if (byId("key").value) headers.authorization = `Bearer ${byId("key").value}`;
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error?.message ?? found.error ?? answer.statusText);
  return [found, answer.headers];
}

function shown(list, query, hits) {
  const words = wordsOf(query);
  hits.forEach((hit, place) => {
    const text = hit.content[0].text;
    const title = hit.filename === hit.file_id ? "" : hit.filename;
    const why = element("div", { class: "why", hidden: "", "aria-live": "polite" });
    const button = element("button", { type: "button", "aria-expanded": "false", onclick: () => explain(button, why, query, hit) },
      "Why this document");
    list.append(element("li", {},
      element("h3", {}, ...marked(title || `${text.slice(0, 60)} …`, words)),
      element("p", { class: "text", tabindex: "0" }, ...marked(text, words)),
      element("p", { class: "line" }, `${place + 1}. score ${number(hit.score)} · `, element("span", { class: "id" }, hit.file_id), " ", button),
      why));
  });
}

async function explain(button, why, query, hit) {
  why.hidden = !why.hidden;
  button.setAttribute("aria-expanded", String(!why.hidden));
  if (why.hidden || why.childNodes.length) return;
  try {
    const [found] = await call("/why", { query, doc_id: hit.file_id });
    why.append(...told(found, query, hit));
  } catch (error) {
    why.append(element("p", {}, String(error.message)));
  }
}

function told(found, query, hit) {
  const places = Object.entries(found.places).map(([name, place]) =>
    `${NAMES[name] ?? name}: ${place ? `rank ${place.rank}` : "not among its first 100"}`);
  const own = wordsOf(`${hit.filename} ${hit.content[0].text}`);
  const lacking = [...wordsOf(query)].filter((word) => !own.has(word));
  const moved = found.words.filter((word) => Math.abs(found.score - word.without) >= 0.0005)
    .sort((one, other) => one.without - other.without);
  const lines = [element("p", {}, `${places.join("; ")}.`)];
  if (lacking.length) lines.push(element("p", {}, `Words of the query that are not in it: ${lacking.join(", ")}.`));
  if (moved.length && found.words.length > 1) {
    lines.push(element("p", {}, `The model's score is ${number(found.score)}. Without one word of the query it is:`));
    lines.push(element("ul", {}, ...moved.map((word) => element("li", {}, `${number(word.without)} without “${word.word}”`))));
  }
  for (const pair of found.pairs) {
    const verdict = pair.judged ? `judged ${pair.judged}` : pair.verdict ?? "not judged";
    const place = `/audit#pair=${[pair.query_id, pair.doc_id].map(encodeURIComponent).join(",")}`;
    const audit = data.has_key ? [] : [" ", element("a", { href: place }, "in the audit")];
    lines.push(element("p", {}, `It was trained on with the query “${pair.query}” (${verdict}): ${pair.reason}`, ...audit));
  }
  return lines;
}

async function search(query) {
  const mine = ++asked;
  history.replaceState(null, "", `?q=${encodeURIComponent(query)}`);
  byId("said").textContent = "Searching …";
  const columns = Object.keys(NAMES).filter((name) => data.systems.includes(name)).map(async (system) => {
    const began = performance.now();
    const path = `/v1/vector_stores/${encodeURIComponent(data.store)}/search`;
    const [found, headers] = await call(path, { query, ranking_options: { ranker: system } });
    const list = element("ol", {});
    shown(list, query, found.data);
    const seconds = `${Number(headers.get("noisyir-ms")).toFixed(0)} ms on the server, ${(performance.now() - began).toFixed(0)} ms here`;
    return element("section", { "aria-label": NAMES[system] },
      element("h2", {}, NAMES[system]), element("p", { class: "line" }, found.data.length ? seconds : `Nothing found. ${seconds}`), list);
  });
  try {
    const found = await Promise.all(columns);
    if (mine !== asked) return;
    byId("systems").replaceChildren(...found);
    byId("said").textContent = `Results for “${query}”.`;
  } catch (error) {
    if (mine === asked) byId("said").textContent = `The search failed: ${error.message}`;
  }
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const audit = data.audit;
byId("rate").textContent = audit.rate === null
  ? `How many of its training pairs are wrong is not known: ${audit.reason}`
  : `${percent(audit.rate)} of its training pairs are wrong (${percent(audit.low)} to ${percent(audit.high)} at ${percent(audit.confidence)} confidence; ${audit.judged} were judged).`;
byId("key-row").hidden = !data.has_key;
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = byId("query").value.trim();
  if (query) search(query);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !["INPUT", "TEXTAREA"].includes(document.activeElement.tagName)) {
    event.preventDefault();
    byId("query").focus();
  }
});
byId("query").focus();
byId("query").value = new URLSearchParams(location.search).get("q") ?? "";
if (byId("query").value) search(byId("query").value);
