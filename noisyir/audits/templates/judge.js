// Judging by keyboard.  An answer shows the next pair immediately and is sent meanwhile: an answer without a reply is kept,
// also by the browser, and sent again.  texts.js is before it, and after it judge_server.js or judge_alone.js: `call`,
// `finish` and `lookAgain`.

const AHEAD = 10; // pairs that are fetched before they are shown
const TARGET = 50; // answers that tell the rate well enough for a start
const USEFUL = 0.25; // a bound on what is wrong among the pairs kept that is worth showing
const FEW = 5; // when so few are left, more are fetched
const STORE = `noisyir-judging-${location.pathname}`;
const NAMES = { clean: "right", wrong: "wrong", unclear: "unsure" };

const keyOf = (pair) => JSON.stringify([pair.query_id, pair.doc_id ?? pair.document.doc_id]);
const idsOf = (pair) => ({ query_id: pair.query_id, doc_id: pair.doc_id ?? pair.document.doc_id });
const wait = (time) => new Promise((done) => setTimeout(done, time));
const typing = (event) => event.target.matches("input:not([type=checkbox], [type=range])");

const upcoming = []; // pairs to judge; the first is shown
const given = []; // pairs that were answered on this page, the last one last
let unsent = kept(); // what the server has not taken yet, in order: [path, body]
let state = null;
let newestAt = 0;
let fetching = false;
let sending = false;
let ended = false;

const unreachable = "unreachable";
const warnings = new Map();

function warn(kind, text) {
  warnings.set(kind, text);
  const said = [...warnings.values()].filter(Boolean).join(" ");
  byId("banner").hidden = !said;
  if (byId("banner").textContent !== said) byId("banner").textContent = said;
}

function kept() {
  try {
    return JSON.parse(localStorage.getItem(STORE)) ?? [];
  } catch {
    return [];
  }
}

function keep() {
  try {
    if (unsent.length) localStorage.setItem(STORE, JSON.stringify(unsent));
    else localStorage.removeItem(STORE);
  } catch {
    // storage is off or full: what is unsent lasts until the page is closed
  }
}

function send(path, body) {
  unsent.push([path, body]);
  keep();
  return sendAll();
}

async function sendAll() {
  if (sending) return;
  sending = true;
  while (unsent.length) {
    const [path, body] = unsent[0];
    try {
      const { found, state: newest } = await call(path, body);
      if (path === "undo") undone(found);
      know(newest);
    } catch (error) {
      warn("refused", `An answer was refused: ${error.message}.`);
    }
    unsent.shift();
    keep();
  }
  sending = false;
  await fetchPairs();
}

async function fetchPairs() {
  if (fetching || ended || upcoming.length > FEW) return;
  fetching = true;
  try {
    const { pairs, state: newest } = await call(`pairs?count=${AHEAD}`);
    const open = new Set([...upcoming, ...unsent.map(([, body]) => body).filter((body) => body.query_id)].map(keyOf));
    const answered = new Set(given.map(keyOf));
    const fresh = pairs.filter((pair) => !open.has(keyOf(pair)) && !answered.has(keyOf(pair)));
    const wasEmpty = upcoming.length === 0;
    upcoming.push(...fresh);
    know(newest);
    if (wasEmpty) show();
  } catch (error) {
    warn("refused", `${error.message}.`);
  } finally {
    fetching = false;
  }
}

// Answering ------------------------------------------------------------------------------------------------------

function answer(verdict, replacement = null) {
  const pair = upcoming.shift();
  if (!pair) return;
  given.push(pair);
  say(replacement === null ? `Answered: ${NAMES[verdict]}.` : `Answered: wrong, ${replacement} is the right one.`);
  show();
  send("answer", { ...idsOf(pair), verdict, replacement });
}

function accept(number) {
  const other = upcoming[0]?.others[number];
  if (other) answer("wrong", other.doc_id);
}

function skip() {
  if (upcoming.length < 2) return say("This is the only pair left.");
  const pair = upcoming.shift();
  say("Later.");
  show();
  send("skip", idsOf(pair));
}

function undo() {
  const pair = given.pop();
  if (pair) {
    upcoming.unshift(pair);
    say("Taken back: judge it again.");
    show();
    send("undo", idsOf(pair));
  } else if (state?.last && !unsent.length) {
    send("undo", { query_id: state.last.query_id, doc_id: state.last.doc_id }); // answered before this page was loaded
  } else say("There is nothing to take back.");
}

function undone(pair) {
  if (pair === null || upcoming.some((other) => keyOf(other) === keyOf(pair))) return;
  upcoming.unshift(pair);
  say("Taken back: judge it again.");
  show();
}

// Drawing --------------------------------------------------------------------------------------------------------

const say = (text) => (byId("said").textContent = text);

function shownText(text, others, cut) {
  return [element("p", { class: "body", tabindex: 0 }, ...marked(text, others)),
          cut ? element("p", { class: "note" }, "The text goes on.") : null];
}

function card(name, { doc_id, text, cut }, others) {
  return element("article", { class: "card" },
    element("h2", {}, `${name} `, element("span", { class: "id" }, doc_id)), ...shownText(text, others, cut));
}

function otherCard(other, number, queryWords) {
  const choose = element("button", { type: "button", class: "accept", onclick: () => accept(number) },
    "This is the right one ", element("kbd", {}, `${number + 1}`));
  const made = card("document", other, queryWords);
  made.append(choose);
  return made;
}

function show() {
  const pair = upcoming[0];
  const target = state && state.judged + unsent.length < TARGET;
  byId("target").textContent = target === false ? "" : ` of ${TARGET}`;
  byId("pair").replaceChildren(...(pair ? drawn(pair) : [element("p", { class: "missing" }, emptyText())]));
  for (const id of ["clean", "wrong", "unclear", "skip"]) byId(id).disabled = !pair;
  clipLong(byId("pair"));
  window.scrollTo({ top: 0, behavior: "instant" });
  if (upcoming.length <= FEW) fetchPairs();
}

function emptyText() {
  if (state && state.judged + unsent.length >= state.pairs) return "All pairs are judged.";
  return "The next pair is on its way.";
}

function drawn(pair) {
  const queryWords = wordsOf(pair.query);
  return [
    element("div", { class: "beside" },
      element("article", { class: "card" },
        element("h2", {}, "query ", element("span", { class: "id" }, pair.query_id)),
        element("p", { class: "body" }, ...marked(pair.query, wordsOf(pair.document.text)))),
      card("document", pair.document, queryWords)),
    ...(pair.others.length ? [
      element("h3", {}, "Other documents found for this query"),
      element("div", { class: "others" }, ...pair.others.map((other, place) => otherCard(other, place, queryWords))),
    ] : []),
  ];
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const count = (number) => number.toLocaleString("en");
const interval = ([value, low, high], show) => [element("strong", {}, show(value)),
  element("span", { class: "muted" }, `${show(low)} to ${show(high)}`)];

function know({ at, ...newest }) {
  if (at < newestAt) return; // a later reply was faster
  newestAt = at;
  if (newest.learning) lookAgain();
  const version = JSON.stringify(newest);
  if (state?.version === version) return;
  const before = state;
  state = { ...newest, version };
  byId("judge").textContent = state.judge && `, as ${state.judge}`;
  byId("main").hidden = ended;
  byId("judged").textContent = count(state.judged);
  const since = Math.max(0, state.judged - state.learnt_from);
  byId("batch").value = Math.min(TARGET, state.judged);
  byId("left").textContent = state.learning ? "learning from your answers …"
    : state.judged >= TARGET && state.known.rate ? `Done: ${percent(state.known.rate[0])} are wrong. You may finish.`
    : `${Math.max(0, state.batch - since)} more until the figures below are computed again`;
  if (!upcoming.length) show();
  const facts = JSON.stringify([state.known, state.agreement]);
  if (before?.facts !== facts) drawKnown(state.known, state.agreement);
  state.facts = facts;
}

const fact = (name, value, ...notes) => element("div", {}, element("dt", {}, name),
  element("dd", {}, ...value), ...notes.filter(Boolean).map((note) => element("dd", { class: "note" }, note)));

function rateFact(known) {
  const rate = known.rate
    ? fact("Share of wrong pairs", interval(known.rate, percent), `By ${count(known.sampled)} pairs drawn at random, with 95 % confidence.`, known.narrower)
    : fact("Share of wrong pairs", [element("span", { class: "muted" }, "not known yet")], `The first figures come after ${state.batch} answers.`);
  rate.classList.add("big");
  return [rate];
}

function drawKnown(known, agreement) {
  if (known.advice && !known.sampled) return byId("facts").replaceChildren(fact("Systems", [known.advice])); // of pools
  const facts = [];
  const add = (...told) => facts.push(fact(...told));
  if (known.order) add("Wrong pairs above right ones", interval(known.order, percent), "50 % is chance.", known.advice);
  else if (known.advice) add("Wrong pairs above right ones", [element("span", { class: "muted" }, "not known yet")], known.advice);
  for (const { judges, pairs, kappa } of agreement)
    add(`Agreement of ${judges.join(" and ")}`, [element("strong", {}, kappa === null ? "–" : kappa.toFixed(2)),
      element("span", { class: "muted" }, `Cohen's kappa, ${count(pairs)} pairs judged by both`)]);
  const keeps = known.guarantee.some(([, most]) => most < USEFUL);
  byId("facts").replaceChildren(...rateFact(known), ...(keeps ? [] : [fact("What you could keep", [element("span", { class: "muted" }, "not known yet")],
    `More answers are needed before any part is known to be at most ${100 * USEFUL} % wrong.`)]));
  byId("more-facts").replaceChildren(...facts);
  byId("details").hidden = !facts.length;
  byId("guarantee").hidden = !keeps;
  if (keeps) {
    byId("keep").max = known.guarantee.length - 1;
    if (!slid) byId("keep").value = known.guarantee.findLastIndex(([, most]) => most <= Math.max(0.05, Math.min(...known.guarantee.map((one) => one[1]))));
    bound();
  }
}

let slid = false;

function bound() {
  const { guarantee, confidence } = state.known;
  const [pairs, most] = guarantee[byId("keep").value];
  const share = percent(pairs / state.pairs);
  byId("keep").setAttribute("aria-valuetext", `${count(pairs)} pairs`);
  byId("bound").replaceChildren(`Keep the ${count(pairs)} pairs with the lowest score (${share}): at most `,
    element("strong", {}, percent(most)), ` of these are wrong, with ${100 * confidence} % confidence.`);
}

// Keys and buttons -----------------------------------------------------------------------------------------------

const actions = {
  r: () => answer("clean"),
  c: () => answer("clean"), // as on the audit's page
  w: () => answer("wrong"),
  u: () => answer("unclear"),
  n: skip,
  z: undo,
  1: () => accept(0),
  2: () => accept(1),
  3: () => accept(2),
  "?": () => byId("help").showModal(),
};

document.addEventListener("keydown", (event) => {
  if (typing(event) || event.ctrlKey || event.metaKey || event.altKey || event.repeat || byId("help").open || ended || !byId("keys").checked) return;
  const key = event.key.toLowerCase();
  if (Object.hasOwn(actions, key)) {
    event.preventDefault();
    actions[key]();
  }
});

const buttons = { clean: "r", wrong: "w", unclear: "u", skip: "n", undo: "z", "help-button": "?" };
for (const [id, key] of Object.entries(buttons)) byId(id).addEventListener("click", actions[key]);
byId("finish").addEventListener("click", finish);
byId("keep").addEventListener("input", () => {
  slid = true;
  bound();
});
