"""Sets of training pairs for the benches of training: some that people judged, some to put noise into.

    python -m bench.labelled_sets ../shared/data data/protocol     # the protocol's sets, and their digests

The first folder holds `squad`, `staqc_sql`, `nl2bash`, `conala` and `qed_nq_train`; docs/how-to/protocol.md has their
origins.  A set that lacks its files is said and left out.
"""

import argparse
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from noisyir.data.formats.beir import Beir


@dataclass(frozen=True)
class Labelled:
    """Training pairs, which of them people call right (None: nobody looked), and a test without wrong pairs.

    sources: of documents, where they have one; answers: of queries, likewise.
    """

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    train: Sequence[tuple[str, str]]
    is_right: Sequence[bool] | None
    test: Sequence[tuple[str, str]]
    sources: Mapping[str, str] = field(default_factory=dict)
    answers: Mapping[str, Sequence[str]] = field(default_factory=dict)


VERDICTS = "verdicts.tsv"
Reader = Callable[[Path, int | None], Labelled]


def _staqc(folder: Path, pairs: int | None) -> Labelled:
    lines = (folder / "sql_annotated.jsonl").read_text(encoding="utf-8").splitlines()[:pairs]
    rows = list(map(json.loads, lines))
    asked = sorted({str(row["qid"]) for row in rows})
    taught = set(np.random.default_rng(0).permutation(asked)[: len(asked) // 2])
    train = [row for row in rows if str(row["qid"]) in taught]
    return Labelled(
        {row["id"]: row["code"] for row in rows},
        {str(row["qid"]): row["title"] for row in rows},
        [(str(row["qid"]), row["id"]) for row in train],
        [row["label"] == 1 for row in train],
        [(str(row["qid"]), row["id"]) for row in rows if str(row["qid"]) not in taught and row["label"] == 1],
    )


def _nl2bash(folder: Path, pairs: int | None) -> Labelled:
    verdicts: dict[tuple[str, str], bool] = {}
    for path in sorted(folder.glob("manual.evaluations.*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                verdicts.setdefault((row["description"], row["prediction"]), row["correct template"].strip() == "y")
    judged = list(verdicts)[:pairs]
    texts, commands = ((folder / name).read_text(encoding="utf-8").splitlines() for name in ("all.nl", "all.cm"))
    described = {description for description, _ in judged}
    others = [(text, command) for text, command in zip(texts, commands, strict=True) if text not in described]
    tested = set(np.random.default_rng(0).permutation(sorted({text for text, _ in others}))[:1500])
    test = [(text, command) for text, command in others if text in tested]
    document = {text: f"d{n}" for n, text in enumerate(dict.fromkeys([*(c for _, c in judged), *commands]))}
    query = {text: f"q{n}" for n, text in enumerate(dict.fromkeys([*(q for q, _ in judged), *(q for q, _ in test)]))}
    return Labelled(
        {name: text for text, name in document.items()},
        {name: text for text, name in query.items()},
        [(query[text], document[command]) for text, command in judged],
        list(verdicts.values())[:pairs],
        list(dict.fromkeys((query[text], document[command]) for text, command in test)),
    )


def _nq(folder: Path, pairs: int | None) -> Labelled:
    """Natural Questions whose passage a second person confirmed: all right; every fifth question is tested."""
    rows = [*map(json.loads, (folder / "nq_pairs_train.jsonl").read_text(encoding="utf-8").splitlines())]
    passages = dict.fromkeys(row["passage"] for row in rows)
    names = {passage: f"d{number}" for number, passage in enumerate(passages)}
    numbered = [(f"q{number}", row) for number, row in enumerate(rows)]
    return Labelled(
        {name: passage for passage, name in names.items()},
        {name: row["question"] for name, row in numbered},
        [(name, names[row["passage"]]) for number, (name, row) in enumerate(numbered) if number % 5][:pairs],
        None,
        [(name, names[row["passage"]]) for name, row in numbered[::5]],
        {names[row["passage"]]: row["title"] for row in rows},
        {name: row["answers"] for name, row in numbered},
    )


def _conala(folder: Path, pairs: int | None) -> Labelled:
    """Written by hand, so all right: what a method loses where it has nothing to find."""
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    found: dict[str, list[tuple[str, str]]] = {}
    for split in ("train", "test"):
        rows = json.loads((folder / f"conala-{split}.json").read_text(encoding="utf-8"))
        texts = dict.fromkeys((row["rewritten_intent"] or row["intent"], row["snippet"]) for row in rows)
        found[split] = [
            (queries.setdefault(intent, f"q{len(queries)}"), documents.setdefault(snippet, f"d{len(documents)}"))
            for intent, snippet in islice(texts, pairs)
        ]
    taught = {query for query, _ in found["train"]}
    test = [pair for pair in found["test"] if pair[0] not in taught]
    by_id = ({name: text for text, name in texts.items()} for texts in (documents, queries))
    return Labelled(*by_id, found["train"], [True] * len(found["train"]), test)


def _squad(folder: Path, pairs: int | None) -> Labelled:
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    sources: dict[str, str] = {}
    answers: dict[str, list[str]] = {}
    found: dict[str, list[tuple[str, str]]] = {"train": [], "dev": []}
    for split, rows in found.items():
        most = pairs if split == "train" else 2000
        for number, (title, passage, asked) in enumerate(islice(_questions(folder / f"{split}-v1.1.json"), most)):
            doc_id, query_id = documents.setdefault(passage, f"d{len(documents)}"), f"{split}{number}"
            queries[query_id], sources[doc_id] = asked["question"], title
            answers[query_id] = [answer["text"] for answer in asked["answers"]]
            rows.append((query_id, doc_id))
    texts = {name: text for text, name in documents.items()}
    return Labelled(texts, queries, found["train"], None, found["dev"], sources, answers)


def _with_near_misses(miss: Callable[[Labelled, int], str | None]) -> Reader:
    """SQuAD's right pairs, and for every other question a second pair with what is nearly its passage."""

    def read(folder: Path, pairs: int | None) -> Labelled:
        right = _squad(folder, pairs)
        documents, wrong = dict(right.documents), list[tuple[str, str]]()
        for number in range(0, len(right.train), 2):
            if text := miss(right, number):
                document = next((name for name, known in documents.items() if known == text), f"near{number}")
                documents[document] = text
                wrong.append((right.train[number][0], document))
        labels = [True] * len(right.train) + [False] * len(wrong)
        return replace(right, documents=documents, train=[*right.train, *wrong], is_right=labels)

    return read


def of_the_same_page(right: Labelled, number: int) -> str | None:
    """The next passage of the same article that does not hold the answer."""
    query, document = right.train[number]
    names = list(dict.fromkeys(name for _, name in right.train if right.sources[name] == right.sources[document]))
    others = names[names.index(document) + 1 :] + names[: names.index(document)]
    texts = (right.documents[name] for name in others)
    return next((text for text in texts if not _answers(right, query, text)), None)


def half_an_answer(right: Labelled, number: int) -> str | None:
    """The first or the last half of the passage's words, the one without the answer."""
    query, document = right.train[number]
    words = right.documents[document].split()
    halves = (" ".join(words[: len(words) // 2]), " ".join(words[len(words) // 2 :]))
    return next((half for half in halves if not _answers(right, query, half)), None)


def _answers(right: Labelled, query: str, text: str) -> bool:
    return any(answer.casefold() in text.casefold() for answer in right.answers[query])


def _questions(path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Title, passage and question: of the first three paragraphs of every article, then of the next three, ..."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    for start in count(0, 3):
        paragraphs = [
            (article["title"], paragraph)
            for article in articles
            for paragraph in article["paragraphs"][start : start + 3]
        ]
        if not paragraphs:
            return
        for title, paragraph in paragraphs:
            for question in paragraph["qas"]:
                yield title, paragraph["context"], question


READERS: dict[str, Reader] = {
    "staqc": _staqc,
    "nl2bash": _nl2bash,
    "conala": _conala,
    "nq": _nq,
    "squad": _squad,
    "squad_same_page": _with_near_misses(of_the_same_page),
    "squad_half_answers": _with_near_misses(half_an_answer),
}


def write_beir(labelled: Labelled, kept: Sequence[int], folder: Path) -> None:
    """A BEIR folder with the training pairs numbered `kept`; documents and test are the same whatever they are."""
    train = [labelled.train[number] for number in kept]
    asked = dict.fromkeys(query for query, _ in [*train, *labelled.test])
    documents = (
        {"_id": name, "text": text, "metadata": {"source": labelled.sources.get(name)}}
        for name, text in labelled.documents.items()
    )
    queries = (
        {"_id": name, "text": labelled.queries[name], "answers": labelled.answers.get(name, [])} for name in asked
    )
    write_folder(folder, documents, queries, {"train": train, "test": labelled.test})


def write_folder(
    folder: Path,
    documents: Iterable[Mapping[str, Any]],
    queries: Iterable[Mapping[str, Any]],
    qrels: Mapping[str, Sequence[tuple[str, str]]],
) -> None:
    """A BEIR folder with these lines and these (query, document) by split."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, rows in {"corpus": documents, "queries": queries}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for split, pairs in qrels.items():
        lines = (f"{query}\t{document}\t1\n" for query, document in pairs)
        (folder / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), "utf-8")


def write_verdicts(labelled: Labelled, path: Path) -> None:
    """Which training pairs people call right: a file that no reader of BEIR opens; none where nobody looked."""
    if labelled.is_right is not None:
        lines = (f"{q}\t{d}\t{int(right)}\n" for (q, d), right in zip(labelled.train, labelled.is_right, strict=True))
        path.write_text("".join(lines), encoding="utf-8")


# of the protocol: the reader, the raw files' folder, and training pairs at most
SETS = {
    "staqc": ("staqc", "staqc_sql", None),
    "nl2bash": ("nl2bash", "nl2bash", None),
    "conala": ("conala", "conala", None),
    "nq": ("nq", "qed_nq_train", None),
    "squad": ("squad", "squad", 1500),
    "squad_near_pages": ("squad_same_page", "squad", 1500),
    "squad_near_halves": ("squad_half_answers", "squad", 1500),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("raw", type=Path, help="holds the files as they were published")
    parser.add_argument("target", type=Path, help="where the sets are written, a folder each")
    asked = parser.parse_args()
    for name, (reader, folder, pairs) in SETS.items():
        try:
            labelled = READERS[reader](asked.raw / folder, pairs)
        except FileNotFoundError as error:
            print(f"{name:<20} left out: there is no {error.filename}")
            continue
        write_beir(labelled, range(len(labelled.train)), asked.target / name)
        write_verdicts(labelled, asked.target / name / VERDICTS)
        digest = Beir(path=str(asked.target / name)).open().digest()[:16]
        print(f"{name:<20} {len(labelled.train):>6,} training pairs, {len(labelled.test):>6,} of test, digest {digest}")


if __name__ == "__main__":
    main()
