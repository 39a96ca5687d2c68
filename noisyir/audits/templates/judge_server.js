// The page's calls of the server that keeps the answers: tried again until it answers.

const PATIENCE = 700; // milliseconds between two attempts

async function call(path, body) {
  const init = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  let tries = 0;
  for (;;) {
    try {
      const answer = await fetch(path, { ...init, cache: "no-store" });
      const found = await answer.json();
      if (answer.ok) {
        warn(unreachable, "");
        return found;
      }
      if (answer.status !== 507) throw Object.assign(new Error(found.error), { refused: true });
      warn(unreachable, `${found.error}. Your answers are kept on this page and sent again until they are saved.`);
    } catch (error) {
      if (error.refused) throw error;
      tries += 1;
      if (tries > 1) warn(unreachable, "The server cannot be reached. Start it again with the same command: your answers are kept on this page and sent when it is back.");
    }
    await wait(PATIENCE);
  }
}

async function finish() {
  if (ended) return;
  byId("finish").disabled = true;
  say("Learning from all answers.");
  while (unsent.length) await wait(50);
  const { found, state: newest } = await call("finish", {});
  ended = true;
  know(newest);
  byId("main").hidden = true;
  byId("ended").hidden = false;
  byId("summary").textContent = found.summary;
  byId("result").replaceChildren(...rateFact(state.known));
  const lines = found.summary.split("\n");
  byId("commands").replaceChildren(...lines.flatMap((line, number) => (line.startsWith("  noisyir ")
    ? [element("p", { class: "command" }, lines[number - 1], element("br"), ...copyable(`command${number}`, line.trim()))] : [])));
  byId("title").textContent = "The session is over";
  byId("title").focus();
}

// Has the server learnt from the answers meanwhile?
let looking = false;

async function lookAgain() {
  if (looking) return;
  looking = true;
  await wait(1000);
  looking = false;
  if (ended) return;
  try {
    know((await call("pairs?count=0")).state);
  } catch {
    // the next answer tells what is wrong
  }
}

if (unsent.length) sendAll();
else fetchPairs();
