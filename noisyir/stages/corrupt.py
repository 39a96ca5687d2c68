"""Mismatched training pairs at a known rate, and the truth about them, which only scoring may read."""

import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.config import CorruptParams
from noisyir.schemas import ANSWERS, CORPUS, NOISE_TRUTH, NOISY_PAIRS, PAIRS, QRELS
from noisyir.stage import Job, Stage

if TYPE_CHECKING:
    from noisyir.data.noise import Judge

Rows = np.ndarray[Any, np.dtype[np.int64]]


def corrupt(job: Job[CorruptParams]) -> None:
    """Give exactly round(rate * n) of the n training pairs a wrong document; other splits stay as they are."""
    from noisyir.data.noise import choose_pairs

    pairs = job.table("pairs")
    training = np.flatnonzero(pc.equal(pairs["split"], "train").to_numpy())
    noisy = training[choose_pairs(len(training), job.params.rate, job.rng("pairs"))]
    doc_ids = pairs["doc_id"].to_numpy(zero_copy_only=False)
    if len(noisy):
        doc_ids = doc_ids.copy()
        doc_ids[noisy] = _wrong_documents(job, pairs, training, noisy)
    noisy_pairs = pairs.set_column(pairs.schema.get_field_index("doc_id"), "doc_id", pa.array(doc_ids, pa.string()))
    is_noisy = np.isin(training, noisy, assume_unique=True)
    job.write("noisy_pairs", noisy_pairs)
    job.write(
        "noise_truth",
        noisy_pairs.take(training)
        .append_column("kind", pa.array(np.where(is_noisy, job.params.mechanism, "clean")))
        .append_column("is_noisy", pa.array(is_noisy)),
    )
    job.note("noise", {"mechanism": job.params.mechanism, "training_pairs": len(training), "noisy": len(noisy)})


def _wrong_documents(job: Job[CorruptParams], pairs: pa.Table, training: Rows, noisy: Rows) -> "np.ndarray[Any, Any]":
    """Ids of other training pairs' documents, one for each row in `noisy`, none of them relevant to its query.

    Relevant is what the pairs and judgements call so, what has the text of such a document, and what holds an answer.
    """
    from noisyir.data.noise import draw_mismatches, is_among

    relevant = _relevant(job, pairs)
    numbers, texts = _numbered_texts(job, relevant["doc_id"])
    positives = pairs["doc_id"].take(training).to_pylist()
    pool, first = np.unique([numbers[doc_id] for doc_id in positives], return_index=True)
    queries = pairs["query_id"].unique()
    known_text = np.array([numbers[doc_id] for doc_id in relevant["doc_id"].to_pylist()])
    known = np.stack([_positions(relevant["query_id"], queries), np.searchsorted(pool, known_text)], axis=1)
    drawn = draw_mismatches(
        _positions(pairs["query_id"].take(noisy), queries),
        len(pool),
        known[is_among(known_text, pool)],
        job.rng("documents"),
        is_relevant=_holds_answer(job, pairs["query_id"].take(noisy).to_pylist(), [texts[number] for number in pool]),
    )
    documents: np.ndarray[Any, Any] = np.array(positives, object)[first[drawn]]
    return documents


def _relevant(job: Job[CorruptParams], pairs: pa.Table) -> pa.Table:
    """(query_id, doc_id) of everything called relevant to the queries that have pairs."""
    qrels = job.table("qrels")
    of_pairs = pc.is_in(qrels["query_id"], value_set=pairs["query_id"].unique())
    judged = qrels.filter(pc.and_(pc.greater(qrels["relevance"], 0), of_pairs))
    columns = ["query_id", "doc_id"]
    return pa.concat_tables([pairs.select(columns), judged.select(columns)]).combine_chunks()


def _numbered_texts(job: Job[CorruptParams], doc_ids: pa.ChunkedArray) -> tuple[dict[str, int], list[str]]:
    """A number for each of these documents, equal where the texts are (the titles, where there is no text)."""
    wanted = doc_ids.unique()
    number_of_text: dict[str, int] = {}
    numbers: dict[str, int] = {}
    for batch in job.batches("corpus"):
        found = batch.filter(pc.is_in(batch["doc_id"], value_set=wanted))
        for doc_id, title, text in zip(*(column.to_pylist() for column in found.columns), strict=True):
            numbers[doc_id] = number_of_text.setdefault(text or title, len(number_of_text))
    return numbers, list(number_of_text)


def _positions(ids: pa.ChunkedArray, among: pa.Array) -> Rows:
    positions: Rows = pc.index_in(ids, value_set=among).to_numpy()
    return positions


def _holds_answer(job: Job[CorruptParams], query_ids: list[str], texts: list[str]) -> "Judge":
    """Judges by answer match where the data has answers, and calls nothing relevant where it has none."""
    from noisyir.eval.answers import has_answer, tokens

    answers = job.table("answers")
    aliases = dict(zip(answers["query_id"].to_pylist(), answers["aliases"].to_pylist(), strict=True))
    tokens_of = cache(tokens)

    @cache
    def folded(document: int) -> str:
        return unicodedata.normalize("NFD", texts[document]).casefold()

    def holds(query_id: str, document: int) -> bool:
        # tokenising every drawn text would take most of the stage's time; few have all tokens as mere substrings
        likely = [
            answer
            for answer in aliases.get(query_id, ())
            if all(token.casefold() in folded(document) for token in tokens_of(answer))
        ]
        return bool(likely) and has_answer(likely, texts[document])

    def judge(rows: Rows, documents: Rows) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        if not aliases:
            return np.zeros(len(rows), bool)
        pairs = zip(rows.tolist(), documents.tolist(), strict=True)
        return np.array([holds(query_ids[row], document) for row, document in pairs], bool)

    return judge


CORRUPT = Stage(
    name="corrupt",
    version=1,
    params=CorruptParams,
    reads={
        "pairs": PAIRS.all(),
        "qrels": QRELS.all(),
        "corpus": CORPUS["doc_id", "title", "text"],
        "answers": ANSWERS.all(),
    },
    writes={"noisy_pairs": NOISY_PAIRS, "noise_truth": NOISE_TRUTH},
    run=corrupt,
    seeded=True,
)
