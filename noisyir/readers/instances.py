"""Training instances of a reader: passage windows with answer spans, sampled per question."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import DataError
from noisyir.models.question_passage import OffsetTokens, PairTokenizer
from noisyir.models.text_tokenizer import Tokens
from noisyir.readers.answer_spans import window_around
from noisyir.readers.model import Spans
from noisyir.readers.settings import TrainReaderParams
from noisyir.training.batches import Ragged, Rows
from noisyir.training.examples import Numbering
from noisyir.training.full_size import full_texts

PASSAGES_READ = 20  # per question in a dry run, as in the papers


@dataclass(frozen=True)
class Instances:
    """Labelled spans, ordered by question, then passage.

    Attributes:
        first: First token in the window, by instance.
        last: Last token in the window, inclusive, by instance.
        window_question: Question number, by distinct window.
        window_passage: Passage number, by distinct window.
        window_first: First token of the passage, by distinct window.
        window_stop: End token of the passage, by distinct window.
        confusing: Confusing passages of each window's passage.
    """

    questions: Tokens
    passages: OffsetTokens
    question: Rows
    window: Rows
    first: Rows
    last: Rows
    score: npt.NDArray[np.float64]
    window_question: Rows
    window_passage: Rows
    window_first: Rows
    window_stop: Rows
    confusing: Ragged

    def __len__(self) -> int:
        return len(self.question)

    def draw(self, question: int, most: int | None, share: float, rng: np.random.Generator) -> "DrawnInstances":
        """Sample at most `most` instances of a question, and `share` confusing passages per window.

        A fractional number of passages is rounded up with the probability of its fraction. Passages that confuse more
        instances are drawn more often. A question with one instance gets none, because its denoise loss is always 0.
        """
        rows = np.arange(*np.searchsorted(self.question, [question, question + 1]))
        if most is not None and len(rows) > most:
            rows = np.sort(rng.choice(rows, most, replace=False))
        windows, place, count = np.unique(self.window[rows], return_inverse=True, return_counts=True)
        if share == 0.0 or len(rows) < 2:
            return DrawnInstances(rows, windows, place, np.empty(0, np.int64), np.zeros((len(rows), 0), bool))
        of_window, passage = self.confusing.take(windows)
        candidates, inverse = np.unique(passage, return_inverse=True)
        likely = np.log(np.bincount(inverse, weights=count[of_window], minlength=len(candidates)))
        wanted = int(share * len(windows) + rng.random())
        chosen = np.sort(np.argsort(-(likely + rng.gumbel(size=len(candidates))))[:wanted])
        attracts = np.zeros((len(windows), len(candidates)), bool)
        attracts[of_window, inverse] = True
        return DrawnInstances(rows, windows, place, candidates[chosen], attracts[place][:, chosen])


@dataclass(frozen=True)
class DrawnInstances:
    """Sampled instances of one question with their windows, confusing passages, and the mapping between them."""

    instances: Rows
    windows: Rows
    place: Rows
    confusing: Rows
    attracts: npt.NDArray[np.bool_]


def windows_and_spans(instances: Instances, drawn: list[DrawnInstances], room: Rows) -> tuple[Tokens, Tokens, Spans]:
    """Return questions and passage windows to read (instances first, then confusing ones), and the instances' spans.

    Args:
        room: Passage tokens that fit next to each question.
    """
    windows = np.concatenate([one.windows for one in drawn])
    begin = np.cumsum([0, *(len(one.windows) for one in drawn)])
    place = np.concatenate([one.place + start for one, start in zip(drawn, begin[:-1], strict=True)])
    rows = np.concatenate([one.instances for one in drawn])
    asked = np.array([instances.question[one.instances[0]] for one in drawn])
    confusing = np.concatenate([one.confusing for one in drawn])
    confused = np.repeat(asked, [len(one.confusing) for one in drawn])
    stop = np.minimum(instances.passages.tokens.lengths[confusing], room[confused])
    questions = instances.questions.take(np.concatenate([instances.window_question[windows], confused]))
    passages = instances.passages.windows(
        np.concatenate([instances.window_passage[windows], confusing]),
        np.concatenate([instances.window_first[windows], np.zeros_like(confusing)]),
        np.concatenate([instances.window_stop[windows], stop]),
    )
    return questions, passages, Spans(place, instances.first[rows], instances.last[rows])


def training_instances(
    tokenizer: PairTokenizer, spans: pa.Table, questions: pa.Table, passages: Mapping[str, str], confusing: pa.Table
) -> tuple[Instances, pa.Table]:
    """Number and tokenise labelled spans; also return the kept spans, in the same order.

    Spans without a token, or longer than half a window, are dropped.

    Args:
        spans: Columns query_id, doc_id, start, end, score.
        questions: Columns query_id, text.
        passages: Texts by id, for the passages of `spans` and `confusing`.
        confusing: Columns query_id, doc_id, confusing.

    Raises:
        DataError: If no span is left.
    """
    spans = spans.sort_by([(name, "ascending") for name in ("query_id", "doc_id", "start", "end")]).combine_chunks()
    documents = Numbering(pa.array(sorted(passages), pa.string()), "documents")
    tokens = tokenizer.passages([passages[doc_id] for doc_id in sorted(passages)])
    asked = questions.filter(pc.is_in(questions["query_id"], value_set=spans["query_id"].unique())).sort_by("query_id")
    numbering = Numbering(asked["query_id"].combine_chunks(), "queries")
    read = tokenizer.questions(asked["text"].to_pylist())
    question, passage = numbering.rows(spans["query_id"]), documents.rows(spans["doc_id"])
    first, stop = _token_spans(tokens, passage, spans)
    begin, held = window_around(first, stop, tokens.tokens.lengths[passage], room := tokenizer.room(read)[question])
    kept = held & (first < stop)
    if not kept.any():
        raise DataError("readers.none_labelled_spans_can", num_rows=spans.num_rows)
    spans, question, passage = spans.filter(pa.array(kept)), question[kept], passage[kept]
    first, stop, begin, room = first[kept], stop[kept], begin[kept], room[kept]
    windows, at, window = np.unique(
        np.stack([question, passage, begin], axis=1), axis=0, return_index=True, return_inverse=True
    )
    present, renumbered = np.unique(question, return_inverse=True)
    mistaken = _confusing(confusing, numbering, documents, tokens, windows[:, :2])
    stops = np.minimum(windows[:, 2] + room[at], tokens.tokens.lengths[windows[:, 1]])
    instances = Instances(
        read.take(present), tokens, renumbered, window, first - begin, stop - 1 - begin,
        spans["score"].to_numpy().astype(np.float64),
        renumbered[at], windows[:, 1], windows[:, 2], stops, mistaken,
    )  # fmt: skip
    return instances, spans


def _token_spans(tokens: OffsetTokens, passage: Rows, spans: pa.Table) -> tuple[Rows, Rows]:
    rows = zip(passage.tolist(), spans["start"].to_pylist(), spans["end"].to_pylist(), strict=True)
    found = np.array([tokens.token_span(*row) for row in rows], np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _confusing(
    table: pa.Table, questions: Numbering, documents: Numbering, tokens: OffsetTokens, windows: Rows
) -> Ragged:
    """Return the confusing passages of each window's (question, passage); passages without a token are dropped."""
    table = table.filter(pc.is_in(table["query_id"], value_set=questions.ids))
    table = table.filter(pc.is_in(table["doc_id"], value_set=documents.ids))
    passage = documents.rows(table["confusing"])
    pair = questions.rows(table["query_id"]) * len(documents) + documents.rows(table["doc_id"])
    pairs, of_window = np.unique(windows[:, 0] * len(documents) + windows[:, 1], return_inverse=True)
    used = np.isin(pair, pairs) & (tokens.tokens.lengths[passage] > 0)
    by_pair = Ragged.grouped(np.searchsorted(pairs, pair[used]), passage[used], len(pairs))
    window, value = by_pair.take(of_window)
    return Ragged.grouped(window, value, len(windows))


def full_instances(tokenizer: PairTokenizer, params: TrainReaderParams) -> Instances:
    """Full-length instances of one step, `PASSAGES_READ` passages per question with one each; for a dry run."""
    each = min(params.instances or PASSAGES_READ, PASSAGES_READ)
    count, confusing = params.batch_size * each, math.ceil(params.confusing_share)
    asked, number = np.repeat(np.arange(params.batch_size), each), np.arange(count)
    questions = full_texts(params.batch_size, tokenizer.question_max_len)
    room = int(tokenizer.room(questions)[0])
    passages, none = full_texts(each * (1 + confusing), room), np.zeros(count, np.int64)
    places = np.zeros(len(passages.ids), np.int32)
    of_window = Ragged(np.arange(count + 1) * confusing, np.tile(np.arange(each, len(passages)), params.batch_size))
    return Instances(
        questions, OffsetTokens(passages, places, places), asked, number, none, none, np.ones(count),
        asked, number % each, none, none + room, of_window,
    )  # fmt: skip
