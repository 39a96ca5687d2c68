"""What the rows read: queries, passages and pairs, of the demo's data or of files that the user names."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class Texts:
    """pairs: (query, passage) by their numbers, in a fixed random order; judged: the same of held-out queries."""

    name: str
    passages: list[str]
    queries: list[str]
    pairs: list[tuple[int, int]]
    judged: list[tuple[int, int]]

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    def some_passages(self, size: int) -> list[str]:
        """So many passages; the first ones again, with a word before them, where there are not as many."""
        many = len(self.passages)
        return [
            (f"copy {number // many} " if number >= many else "") + self.passages[number % many]
            for number in range(size)
        ]

    def some_pairs(self, size: int) -> list[tuple[str, str]]:
        """(query, passage) texts of the first pairs, at most `size`."""
        return [(self.queries[query], self.passages[passage]) for query, passage in self.pairs[:size]]


def collect(source: str | None) -> Texts:
    """Texts of the demo's data, or of the file or folder `source`, whose format is recognised."""
    import numpy as np

    from bench.records_by_kind import RecordsByKind
    from noisyir.data.formats import Format
    from noisyir.data.recognise import recognise
    from noisyir.models.text_tokenizer import passage_text

    settings: Mapping[str, Any] = recognise(str(Path(source).resolve())) if source else {"kind": "pydocs"}
    data = RecordsByKind(Format.parse(settings).open())
    rng = np.random.default_rng(0)
    documents, queries = list(data.documents()), data.queries
    order = rng.permutation(len(documents))  # the first so many are then a fair sample
    row_of = {documents[place].doc_id: row for row, place in enumerate(order)}
    asked = {query.query_id: row for row, query in enumerate(queries)}
    relevant = [j for j in data.judgements if j.relevance is None or j.relevance >= 1]
    known = [(j.split, asked[j.query_id], row_of[j.doc_id]) for j in relevant]
    known = [known[place] for place in rng.permutation(len(known))]
    return Texts(
        name=str(settings["kind"]),
        passages=[passage_text(documents[place].title, documents[place].text) for place in order],
        queries=[query.text for query in queries],
        pairs=[(query, row) for split, query, row in known if split == "train"],
        judged=[(query, row) for split, query, row in known if split != "train"],
    )
