"use strict";
// Texts on a page, and the words that two of them share.  Text from the data becomes text nodes only, never markup.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const common = new Set(data.common);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// Long texts of cards fade at their end, with a button that shows them whole
function clipLong(parent) {
  for (const body of parent.querySelectorAll(".card .body")) {
    if (body.scrollHeight <= body.clientHeight + 4) continue;
    body.classList.add("clipped");
    const more = element("button", { type: "button", class: "more", onclick: (event) => {
      event.stopPropagation();
      body.classList.replace("clipped", "whole");
      more.remove();
    } }, "more");
    body.after(more);
  }
}

// The browser's own way to save a file
function download(name, parts, type) {
  const link = element("a", { href: URL.createObjectURL(new Blob(parts, { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The text of an element is taken along by its button
function copyable(id, text) {
  const copy = element("button", { type: "button", class: "copy", onclick: async () => {
    getSelection().selectAllChildren(byId(id)); // where the clipboard is closed to a page, Ctrl+C takes it
    await navigator.clipboard?.writeText(byId(id).textContent).catch(() => {});
    copy.textContent = "Copied";
  } }, "Copy");
  return text === undefined ? copy : [element("code", { id }, text), " ", copy];
}

const fold = (word) => word.toUpperCase().toLowerCase().replaceAll("ς", "σ"); // as Python's casefold
// Runs of letters, or single signs where a script has no spaces between words
const unspaced = ["Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar"].map((name) => `\\p{Script=${name}}`).join("");
const oneWord = new RegExp(`([${unspaced}]\\p{M}*|(?:(?![${unspaced}])[\\p{L}\\p{N}\\p{M}])+)`, "gu");
const wordsOf = (text) => new Set((text.match(oneWord) ?? []).map(fold));

function marked(text, others) {
  // split by a group: words are at odd places
  return text.split(oneWord).map((part, place) => {
    const shared = place % 2 && others.has(fold(part)) && !common.has(fold(part));
    return shared ? element("mark", {}, part) : part;
  });
}
