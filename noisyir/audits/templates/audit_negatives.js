
// Candidates for negatives that are likely relevant ---------------------------------------------------------------

{
  const places = (value, count) => (value === null ? "–" : value.toFixed(count));
  const drawn = (row) => (row.used ? "drawn" : "not drawn");
  const score = (value, name) => (value === null ? null : `${name} ${value}`);

  function suspectDetail(row) {
    const queryWords = wordsOf(row.query);
    const text = documentTexts(row.document).slice(1).join("\n");
    const known = [`Confidence ${row.confidence}`, `rank ${row.rank.toLocaleString("en")}`, score(row.score, "score"),
      score(row.positive_score, "its positive's"), score(row.positive_similarity, "cosine to the positive"),
      row.kept_by.length ? `kept by ${row.kept_by.join(", ")}` : null, row.used === null ? null : `${drawn(row)} as a negative`];
    return [
      element("p", { class: "why" }, row.reason),
      element("p", { class: "measures" }, `${known.filter(Boolean).join(" · ")}. Words of the query are marked.`),
      element("div", { class: "three-beside" }, queryCard(row, wordsOf(text)),
        row.positive === null ? null : card(row.positive, "its positive", queryWords),
        card(row.document, "candidate", queryWords)),
    ];
  }

  const negatives = new Listing("negatives-", "Candidate", rowsOf(data.negatives), { sort: "judges", falling: true }, {
    highestFirst: ["judges", "confidence", "score", "positive_score"],
    fits: (row) => {
      const [judge, used] = ["judge", "used"].map((name) => negatives.part(name)?.value ?? "");
      return (!judge || row.judges.some(([name]) => name === judge)) && (!used || String(row.used) === used);
    },
    texts: (row) => [row.query_id, row.query, ...documentTexts(row.document), ...(row.positive === null ? [] : documentTexts(row.positive))],
    sortValue: (row, key) => ({
      judges: () => row.judges.length,
      used: () => drawn(row),
      positive: () => (row.positive === null ? null : firstWords(row.positive)),
      document: () => firstWords(row.document),
    })[key]?.() ?? row[key],
    cells: (row) => ({
      judges: row.judges.map(([judge]) => element("div", {}, judge)),
      confidence: [places(row.confidence, 3)],
      score: [places(row.score, 2)],
      positive_score: [places(row.positive_score, 2)],
      used: [row.used ? element("span", { class: "says wrong" }, "yes") : "no"],
      positive: [row.positive === null ? "–" : opening(row.positive)],
      document: [opening(row.document)],
    }),
    detail: suspectDetail,
  });
  listings.push(negatives);
  negatives.start();
}
