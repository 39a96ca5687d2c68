// A page without a server: the pairs are in it, the browser keeps the answers, and they are saved as a file.

const KEPT = `noisyir-judging-${data.id}`;
const answers = new Map(); // of a pair's key: the line of judgements.jsonl, without the judge; the last answer last
let queue = data.pairs; // pairs without an answer, in the order in which they are asked
restore();

function restore() {
  try {
    const { name, lines } = JSON.parse(localStorage.getItem(KEPT));
    byId("name").value = name;
    for (const line of lines) answers.set(keyOf(line), line);
  } catch {
    // nothing is kept, or the browser keeps nothing for a page
  }
  queue = data.pairs.filter((pair) => !answers.has(keyOf(pair)));
}

function persist() {
  try {
    localStorage.setItem(KEPT, JSON.stringify({ name: byId("name").value, lines: [...answers.values()] }));
    warn("storage", "");
  } catch {
    warn("storage", "Your browser keeps nothing for this page. Save your answers before you close it.");
  }
}

const without = (key) => queue.filter((pair) => keyOf(pair) !== key);

const calls = {
  answer({ query_id, doc_id, verdict, replacement }) {
    const key = keyOf({ query_id, doc_id });
    const { weight } = data.pairs.find((pair) => keyOf(pair) === key);
    answers.delete(key);
    answers.set(key, { query_id, doc_id, verdict, weight, replacement, at: new Date().toISOString() });
    queue = without(key);
  },
  skip(pair) {
    const skipped = queue.find((one) => keyOf(one) === keyOf(pair));
    if (skipped) queue = [...without(keyOf(pair)), skipped];
  },
  undo(pair) {
    if (!answers.delete(keyOf(pair))) return null;
    const open = data.pairs.find((one) => keyOf(one) === keyOf(pair));
    queue = [open, ...queue];
    return open;
  },
};

async function call(path, body) {
  const found = calls[path]?.(body);
  if (body) persist();
  const last = [...answers.values()].at(-1);
  const known = { rate: null, order: null, advice: "", guarantee: [] };
  return { found, pairs: queue.slice(0, AHEAD), state: {
    judge: "", judged: answers.size, pairs: data.pairs.length, batch: TARGET, learnt_from: answers.size, last, known, agreement: [] } };
}

function finish() {
  const judge = byId("name").value.trim();
  if (!judge) {
    byId("saved").textContent = "Write your name first.";
    return byId("name").focus();
  }
  const lines = [...answers.values()].map((line) => `${JSON.stringify({ ...line, judge })}\n`);
  download("judgements.jsonl", lines, "application/jsonl");
  byId("saved").textContent = `Saved ${count(lines.length)} answers as judgements.jsonl. You may go on, and save again.`;
}

byId("name").addEventListener("input", persist);
byId("take-back").append(...copyable("command", data.command));
fetchPairs();
