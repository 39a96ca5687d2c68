"""import_scores: an external teacher's scores, imported from a file."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import CORPUS, PAIRS, QUERIES
from noisyir.data.id_texts import text_key
from noisyir.data.scored_lists import read_scored_lists
from noisyir.data.shapes import joined
from noisyir.engine.provenance import files_digest, may_be_absent
from noisyir.engine.stage import Job, Stage
from noisyir.engine.tables import aligned, pair_ids, with_values
from noisyir.mining.artifacts import CANDIDATE_POOL
from noisyir.mining.stages.teacher_lists import write_scores
from noisyir.mining.teachers import FileTeacher
from noisyir.training.artifacts import TEACHER_SCORES, TRIAL
from noisyir.training.stages.inputs import without_trial

log = logging.getLogger(__name__)

_LEFT_OUT = {
    "padding": "lists padded with 100 and zeros, which no teacher gave",
    "unknown_query": "lists of queries that are neither in train nor in dev",
    "unknown_documents": "scores of documents that the data does not have",
    "without_a_given_document": "lists that score no document given to their query",
}


def import_scores(job: Job[FileTeacher]) -> None:
    """Read a file's lists, match their queries and documents to the data, and note the unmatched.

    A query or document is matched by id, or else by text.
    """
    lists = read_scored_lists(_file(job.params))
    queries, pairs = job.table("queries"), without_trial(job, job.table("pairs"))
    asked = queries.filter(pc.is_in(queries["split"], pa.array(["train", "dev"])))
    query_of = _Found.of(zip(asked["query_id"].to_pylist(), asked["text"].to_pylist(), strict=True))
    named = {one.doc_id for of in lists for one in of.documents if one.doc_id is not None}
    read = {text_key(joined(one)) for of in lists for one in of.documents if one.text}
    document_of = _Found.of(_documents_named(job, named, read))
    given = dict.fromkeys(pair_ids(pairs.filter(pc.equal(pairs["split"], "train"))))
    training = {query_id for query_id, _ in given}
    rows, left_out = dict[tuple[str, str], float](), Counter[str]()
    for one in lists:
        query_id = query_of.name(one.query_id, one.query)
        if query_id is None or one.is_padded:
            left_out["padding" if one.is_padded else "unknown_query"] += 1
            continue
        found = [document_of.name(document.doc_id, joined(document)) for document in one.documents]
        left_out["unknown_documents"] += found.count(None)
        pairs_of = {(query_id, name): score for name, score in zip(found, one.scores, strict=True) if name is not None}
        if query_id in training and not pairs_of.keys() & given.keys():
            left_out["without_a_given_document"] += 1
        else:
            rows |= pairs_of
    taught = {query_id for query_id, _ in rows}
    missed = {why: number for why, number in left_out.items() if number}
    told = {"lists": len(lists), "left_out": missed, "pairs_without": sum(q not in taught for q, _ in given)}
    _tell_import(told)
    job.note("imported", told)
    pool = pa.Table.from_pylist([dict(zip(PAIR_KEY, pair, strict=True)) for pair in sorted(rows)])
    is_given = pa.array([pair in given for pair in sorted(rows)])
    pool = with_values(pool, split=aligned(pool, queries, ["query_id"])["split"], given=is_given)
    job.write("candidate_pool", pool)
    write_scores(job, pool, np.array([rows[pair] for pair in sorted(rows)], np.float32))


def _tell_import(told: dict[str, Any]) -> None:
    """Warn of lists that were not matched.

    Raises:
        DataError: If they are more than half of the lists.
    """
    count, left_out = told["lists"], told["left_out"]
    gone = sum(number for why, number in left_out.items() if why != "unknown_documents")
    said = [f"{number:,} {_LEFT_OUT[why]}" for why, number in left_out.items()]
    if 2 * gone > count:
        raise DataError("mining.teacher_path_lists_cannot", count=count, gone=gone, said=", ".join(said))
    if told["pairs_without"]:
        said.append(f"{told['pairs_without']:,} training pairs without any list")
    if said:
        log.warning(
            "scored lists: of %s lists %s are used; there are %s", f"{count:,}", f"{count - gone:,}", ", ".join(said)
        )


def _file(params: FileTeacher) -> Path:
    if params.path is None:
        raise ConfigError("mining.teacher_path_name_file")
    return Path(params.path)


def _check(params: FileTeacher) -> None:
    """Check the file."""
    read_scored_lists(_file(params))


@may_be_absent
def _digest(params: FileTeacher) -> str:
    """Digest of the file.

    Raises:
        DataError: If there is none.
    """
    path = _file(params)
    if not path.is_file():
        raise DataError("mining.not_file_set_teacher", path=path)
    return files_digest(path.parent, [path])


def _documents_named(job: Job[FileTeacher], ids: set[str], keys: set[int]) -> Iterator[tuple[str, str]]:
    """(id, title and text) of the corpus documents with one of these ids, or a text with one of these keys."""
    for batch in job.batches("corpus"):
        for doc_id, *said in zip(*(batch[name].to_pylist() for name in ("doc_id", "title", "text")), strict=True):
            if doc_id in ids or (keys and text_key(" ".join(said)) in keys):
                yield doc_id, " ".join(said)


class _Found(NamedTuple):
    """Ids in the data, and the first id of each text."""

    ids: set[str]
    of_text: dict[int, str]

    @classmethod
    def of(cls, named: Iterable[tuple[str, str]]) -> "_Found":
        ids, of_text = set[str](), dict[int, str]()
        for name, text in named:
            ids.add(name)
            of_text.setdefault(text_key(text), name)
        return cls(ids, of_text)

    def name(self, name: str | None, text: str) -> str | None:
        """Matching id; None if the data has neither the id nor the text."""
        return name if name in self.ids else self.of_text.get(text_key(text)) if text else None


IMPORT_SCORES = Stage(
    name="import_scores",
    version=1,
    params=FileTeacher,
    reads={
        "pairs": PAIRS["query_id", "doc_id", "split"],
        "trial": TRIAL.all().or_none(),
        "queries": QUERIES["query_id", "text", "split"],
        "corpus": CORPUS["doc_id", "title", "text"],
    },
    writes={"candidate_pool": CANDIDATE_POOL, "teacher_scores": TEACHER_SCORES},
    run=import_scores,
    raw={"path": _digest},
    ready=_check,
)
