"""The audit on files as people have them: a wrong pair's right document may be nowhere in the file.

    python bench/faq_files.py ../shared/data/squad/train-v1.1.json

Makes four files of pairs from a SQuAD v1.1 file, 24 % of the pairs wrong, the truth in a file beside each, and audits
them as `noisyir audit FILE` does.  No stage reads the truth.

| file | each document has | the right document of a wrong pair |
|---|---|---|
| one_absent | one question, as in lists of questions and answers | is nowhere, and the wrong one is another text |
| one_present | one question | is there, at the question of another wrong pair |
| several_absent | four questions | is nowhere: all four questions have documents of other questions |
| several_present | four questions | is there, at one of its other questions at least |

A wrong document never holds an answer to its question, by DPR's rule.
"""

import argparse
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noisyir.app.audit_data import experiment_to_audit
from noisyir.app.label_audit import Audited, run_audit
from noisyir.app.runs import Execution
from noisyir.base.errors import DataError
from noisyir.data.answers import answer_lines, token_line
from noisyir.engine.store import Store
from noisyir.evaluation.detection import detection_quality
from noisyir.registry import open_tracker

RATE, PAIRS, QUESTIONS = 0.24, 4000, 4


class Question(NamedTuple):
    """A question, the lines of its answers, and the number of its right document."""

    text: str
    answers: list[str]
    document: int


@dataclass(frozen=True)
class FileOfPairs:
    """A written file: its name, where it lies, where the truth lies, and which pairs are wrong, by query id."""

    name: str
    path: Path
    truth: Path
    wrong: frozenset[str]


class Drawn(NamedTuple):
    """The document given to each question, by number; where it is not the question's own, the pair is wrong."""

    questions: list[Question]
    documents: list[int]


class Squad:
    """The distinct paragraphs of a SQuAD file in a random order, with their questions."""

    def __init__(self, path: Path, seed: int) -> None:
        articles = json.loads(path.read_text(encoding="utf-8"))["data"]
        by_text = {one["context"]: one["qas"] for article in articles for one in article["paragraphs"] if one["qas"]}
        self.random = random.Random(seed)
        order = self.random.sample(sorted(by_text), len(by_text))
        self.texts = order
        self.questions = [list(self._questions(by_text[text], number)) for number, text in enumerate(order)]
        self.line_of = cache(lambda number: token_line(self.texts[number]))

    @staticmethod
    def _questions(asked: Sequence[dict], number: int) -> Iterator[Question]:  # type: ignore[type-arg]
        for one in {one["question"]: one for one in asked}.values():
            yield Question(one["question"], answer_lines(answer["text"] for answer in one["answers"]), number)

    def fits(self, question: Question, document: int) -> bool:
        """Whether the document is right for the question, or holds an answer to it."""
        return document == question.document or any(line in self.line_of(document) for line in question.answers)

    def with_questions(self, documents: int, each: int) -> list[int]:
        """The first documents that have so many questions.  DataError when there are fewer."""
        found = [number for number, questions in enumerate(self.questions) if len(questions) >= each][:documents]
        if len(found) < documents:
            raise DataError(
                f"{len(found)} paragraphs have {each} questions, {documents} are needed: ask for fewer pairs"
            )
        return found

    def other(self, question: Question, among: Sequence[int]) -> int:
        """One of these documents that is wrong for the question, at random."""
        wrong = (among[self.random.randrange(len(among))] for _ in range(10_000))
        return next(document for document in wrong if not self.fits(question, document))


def one_absent(squad: Squad, pairs: int) -> Drawn:
    """Wrong documents are paragraphs that stand nowhere else in the file."""
    used = squad.with_questions(pairs, 1)
    questions = [squad.questions[number][0] for number in used]
    fresh = sorted(set(range(len(squad.texts))) - set(used))
    documents = list(used)
    for row in squad.random.sample(range(pairs), round(RATE * pairs)):
        documents[row] = squad.other(questions[row], fresh)
        fresh.remove(documents[row])
    return Drawn(questions, documents)


def one_present(squad: Squad, pairs: int) -> Drawn:
    """The documents of the wrong pairs change places with one another."""
    documents = squad.with_questions(pairs, 1)
    questions = [squad.questions[number][0] for number in documents]
    rows = squad.random.sample(range(pairs), round(RATE * pairs))
    while unmoved := [row for row in rows if squad.fits(questions[row], documents[row])]:
        for row in unmoved:
            place = squad.random.choice(rows)
            documents[row], documents[place] = documents[place], documents[row]
    return Drawn(questions, documents)


def several_absent(squad: Squad, pairs: int) -> Drawn:
    """All questions of the chosen documents get documents that are not chosen."""
    used = squad.with_questions(pairs // QUESTIONS, QUESTIONS)
    questions = [question for number in used for question in squad.questions[number][:QUESTIONS]]
    gone = set(squad.random.sample(used, round(RATE * len(used))))
    left = [number for number in used if number not in gone]
    return Drawn(questions, [squad.other(q, left) if q.document in gone else q.document for q in questions])


def several_present(squad: Squad, pairs: int) -> Drawn:
    """Any questions get any documents, but the first question of a document keeps its own."""
    used = squad.with_questions(pairs // QUESTIONS, QUESTIONS)
    questions = [question for number in used for question in squad.questions[number][:QUESTIONS]]
    free = [row for row in range(len(questions)) if row % QUESTIONS]
    documents = [question.document for question in questions]
    for row in squad.random.sample(free, round(RATE * len(questions))):
        documents[row] = squad.other(questions[row], used)
    return Drawn(questions, documents)


SHAPES: dict[str, Callable[[Squad, int], Drawn]] = {
    "one_absent": one_absent,
    "one_present": one_present,
    "several_absent": several_absent,
    "several_present": several_present,
}


def write_files(squad: Path, folder: Path, *, pairs: int = PAIRS, seed: int = 0) -> list[FileOfPairs]:
    """The four files, with about so many pairs each, in a random order: NAME.jsonl and NAME.truth.jsonl."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(name, Squad(squad, seed), pairs, folder) for name in SHAPES]


def _write(name: str, squad: Squad, pairs: int, folder: Path) -> FileOfPairs:
    drawn = SHAPES[name](squad, pairs)
    given = list(zip(drawn.questions, drawn.documents, strict=True))
    squad.random.shuffle(given)
    rows = [
        {"query_id": f"q{n}", "query": question.text, "document": squad.texts[document]}
        for n, (question, document) in enumerate(given)
    ]
    truth = [
        {"query_id": f"q{n}", "is_wrong": document != question.document, "right": squad.texts[question.document]}
        for n, (question, document) in enumerate(given)
    ]
    paths = folder / f"{name}.jsonl", folder / f"{name}.truth.jsonl"
    for path, lines in zip(paths, (rows, truth), strict=True):
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return FileOfPairs(name, *paths, frozenset(str(row["query_id"]) for row in truth if row["is_wrong"]))


def audited(file: FileOfPairs, home: Path, overrides: Sequence[str] = ()) -> Audited:
    """The audit of the file, as the command makes it."""
    exp, store = experiment_to_audit(str(file.path), overrides), Store(home / "store", home=home)
    tracker = open_tracker(experiment=exp, home=home, enabled=False)
    return run_audit(exp, Execution(store=store, tracker=tracker))


def quality(found: Audited, file: FileOfPairs) -> dict[str, float]:
    """Recall and precision of the flags, AUROC of the scores, and the true rate, among other measures."""
    table = found.table
    wrong = np.array([query_id in file.wrong for query_id in table["query_id"].to_pylist()])
    kept = np.array([verdict != "wrong" for verdict in table["verdict"].to_pylist()])
    return detection_quality(table["score"].to_numpy().astype(np.float64), kept, wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squad", type=Path, help="train-v1.1.json")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="in each file, about")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings of the audit")
    args = parser.parse_args()
    home = Path(os.environ.get("NOISYIR_HOME") or tempfile.mkdtemp())
    print(
        "| file | pairs | wrong in truth | the audit says | recall | precision | AUROC |\n|---|--:|--:|---|--:|--:|--:|"
    )
    for file in write_files(args.squad, home / "faq_files", pairs=args.pairs, seed=args.seed):
        found = audited(file, home, args.overrides)
        says = "; ".join(" ".join(line.split()) for line in found.summary().strip().splitlines()[1:])
        found_in = quality(found, file)
        measures = (f"{found_in[name]:.3f}" if name in found_in else "-" for name in ("recall", "precision", "auroc"))
        cells = (file.name, f"{found.table.num_rows:,}", f"{found_in['true_rate']:.1%}", says, *measures)
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
