"""noisyir's NPC and CCR objectives as a loss for sentence-transformers' Trainer."""

import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Bool, Float
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import TrainerCallback

from noisyir.base.errors import ConfigError, DataError
from noisyir.detection.settings import TrainNpcParams
from noisyir.methods.experiments import from_settings, overrides_of
from noisyir.methods.npc import check_warm_up
from noisyir.methods.npc.objective import Detected, NoisyPairCorrection
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.text_tokenizer import Side, Tokens
from noisyir.training.batches import Batch, Ragged, Rows, TrainingPairs, known_columns
from noisyir.training.bi_encoder import check_regulariser, regularised
from noisyir.training.learner import Contrastive, Objective
from noisyir.training.losses.dpr import pair_nll

Similarity = Literal["cosine", "dot"]
Features = Sequence[dict[str, Any]]

_WEIGHT = "weight"
_PADDING = "\N{REPLACEMENT CHARACTER}"  # fills up the negatives of a pair; it never counts
_ANY_EPOCHS = 10_000  # the trainer has its own number
_LABEL = "label"  # the Trainer passes this column on as numbers, not as text


class NoisyPairLoss(nn.Module):
    """A loss for noisy pairs: NPC, CCR or both, in sentence-transformers' Trainer.

    Train on `loss.pairs`, which has a row and a number for each pair, and give the Trainer `loss.callback`, which
    copies the teacher, flags the pairs before each epoch, and lets the teacher follow:

        loss = noisyir.losses.NoisyPairLoss(model, pairs)
        SentenceTransformerTrainer(
            model=model, args=args, train_dataset=loss.pairs, loss=loss, callbacks=[loss.callback]
        ).train()

    It trains in one process on one device.

    Args:
        model: The SentenceTransformer to train.
        pairs: A `datasets.Dataset` of columns: query, its passage, and perhaps hard negatives.  A passage may be a
            list: each makes a pair with the query, and the others do not count in that pair's loss.  Negatives may be
            lists.  A column `weight` multiplies the loss of a row's pairs; pairs of weight 0 are left out.
        correct: Whether to use noisy pair correction (Zhang et al., Findings of EMNLP 2023).
        beta: Weight of the contrastive confidence regulariser (Wang et al., AAAI 2024).
        scale: Factor of the scores, as in MultipleNegativesRankingLoss.
        similarity: Similarity of the vectors.
        settings: Any of `npc`, `npc_detect` and `train.ccr` by name, such as {"npc.doubt": 0}.
        seed: Seed of the null pairs.

    Raises:
        ConfigError: If settings do not exist or do not fit.
        DataError: If `pairs` are no pairs of texts.

    >>> from datasets import Dataset
    >>> from sentence_transformers import SentenceTransformer
    >>> from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> words = Tokenizer(models.WordLevel({"[UNK]": 0, "red": 1, "rot": 2, "blue": 3, "blau": 4}, unk_token="[UNK]"))
    >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> model = SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=8)])
    >>> pairs = Dataset.from_dict({"anchor": ["red", "blue"], "positive": ["rot", "blau"]})
    >>> loss = noisyir.losses.NoisyPairLoss(model, pairs)
    >>> loss.pairs.column_names
    ['anchor', 'positive', 'label']
    >>> loss.is_clean
    array([ True,  True])
    """

    def __init__(
        self,
        model: SentenceTransformer,
        pairs: Any,
        *,
        correct: bool = True,
        beta: float = 0.0,
        scale: float = 20.0,
        similarity: Similarity = "cosine",
        settings: Mapping[str, Any] | None = None,
        seed: int = 42,
    ) -> None:
        super().__init__()
        texts, weights = _pairs_of(*_columns_of(pairs))
        self.model, self.params = model, _params(settings, scale, beta)
        check_regulariser(self.params.model_copy(update={"epochs": _ANY_EPOCHS}), similarity)
        self.pairs = type(pairs).from_dict({**texts, _LABEL: list(range(len(weights)))})
        queries, self._training, self._passages = _numbered(list(texts.values()))
        self._is_padding = np.array([[text == _PADDING for text in column] for column in list(texts.values())[1:]]).T
        encoder = _SentenceEncoder(model, {"query": queries[0], "passage": queries[1]}, similarity)
        self._encoder, self._epoch = [encoder], 0  # in a list, to be no submodule
        self._seed = seed
        counts = None if (weights == 1).all() else torch.from_numpy(weights)
        self.objective: Objective = (
            _CorrectionInTrainer(encoder, self._training, self.params, self._rng, weights=counts)
            if correct
            else Contrastive(counts)
        )
        self.callback = _Callback(self)

    def forward(self, sentence_features: Iterable[dict[str, Any]], labels: Tensor | None) -> Float[Tensor, ""]:
        """The mean pair loss of a batch in nats; `labels` are the pairs' numbers in `pairs`."""
        features = list(sentence_features)
        encoder = self._encoder[0]
        vectors = [encoder.scored(self.model(one)["sentence_embedding"]) for one in features]
        scores = self.params.scale * vectors[0] @ torch.cat(vectors[1:]).T
        if labels is None:
            return self._plain(scores)
        batch = self._batch(labels.cpu().numpy())
        if isinstance(self.objective, _CorrectionInTrainer):
            self.objective.features = features
        loss = self.objective.loss(batch, scores)
        if beta := self.params.ccr.at(self._epoch):
            loss = regularised(loss, batch, scores, beta)
        return loss

    @property
    def detections(self) -> list[Detected]:
        """The detections before each epoch so far."""
        return self.objective.history if isinstance(self.objective, NoisyPairCorrection) else []

    @property
    def is_clean(self) -> Bool[np.ndarray, " pair"]:
        """Whether each pair is clean by the last detection; all before the first one."""
        return self.detections[-1].is_clean if self.detections else np.ones(len(self.pairs), bool)

    def _plain(self, scores: Float[Tensor, "query passage"]) -> Float[Tensor, ""]:
        """The contrastive loss of an evaluation's pairs, which have no numbers."""
        if self.model.training:
            raise DataError("methods.loss_batch_without_numbers")
        own = torch.arange(len(scores), device=scores.device)
        return pair_nll(scores, own, torch.zeros_like(scores, dtype=torch.bool)).mean()

    def _batch(self, rows: Rows) -> Batch:
        """The pairs numbered `rows`; their columns are all passages, then each column of negatives."""
        pairs, columns = self._training, self._passages[rows].T.ravel()
        own = np.arange(len(rows))
        ignored = known_columns(pairs.known, pairs.text[pairs.query[rows]], columns)
        ignored |= self._is_padding[rows].T.ravel()
        ignored[own, own] = False
        return Batch(rows, pairs.queries.take(pairs.query[rows]), pairs.passages.take(columns), own, ignored, columns)

    def _rng(self, *purpose: str | int) -> np.random.Generator:
        """A generator that depends on the seed and `purpose`."""
        text = "/".join(map(str, (self._seed, *purpose)))
        return np.random.default_rng(int.from_bytes(sha256(text.encode()).digest()[:16]))

    # Calls by the callback --------------------------------------------------------------------------------------

    def start_training(self, epochs: int, batch_size: int) -> None:
        """Take over the Trainer's epochs and batch size, so that detection ranks against as many pairs as training."""
        self.params = self.params.model_copy(update={"epochs": epochs, "batch_size": batch_size})
        check_regulariser(self.params, self._encoder[0].similarity)
        if isinstance(self.objective, NoisyPairCorrection):
            check_warm_up(self.params)
            self.objective.params = self.params

    def start_epoch(self, epoch: int) -> dict[str, float]:
        """Start an epoch of the objective; returns points of the learning curves."""
        self._epoch = epoch
        return self.objective.start_epoch(epoch)

    def after_step(self) -> None:
        """Let the objective follow."""
        self.objective.after_step()


class _Callback(TrainerCallback):
    """Tells the loss about the Trainer's epochs and steps."""

    def __init__(self, loss: NoisyPairLoss) -> None:
        self.loss = loss

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Start the loss.

        Raises:
            ConfigError: If the Trainer uses several devices or resumes from a checkpoint.
        """
        if args.world_size > 1 or args.n_gpu > 1:
            raise ConfigError("methods.loss_one_device")
        if state.global_step:
            raise ConfigError("methods.loss_cannot_resume")
        self.loss.start_training(math.ceil(state.num_train_epochs), args.per_device_train_batch_size)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Detect, and add the findings to the Trainer's log."""
        points = self.loss.start_epoch(round(state.epoch or 0))
        if points:
            state.log_history.append({"epoch": state.epoch, "step": state.global_step, **points})

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.loss.after_step()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.loss.objective.finish()


class _SentenceEncoder(BiEncoder):
    """A SentenceTransformer as a bi-encoder; tokens are numbers of texts, because the model tokenises itself."""

    def __init__(self, model: SentenceTransformer, texts: Mapping[Side, tuple[str, ...]], similarity: str) -> None:
        nn.Module.__init__(self)
        self.model, self.texts, self._similarity = model, texts, similarity

    @property
    def dim(self) -> int:
        return cast(int, self.model.get_embedding_dimension())

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def similarity(self) -> str:
        """As `BiEncoder.similarity`."""
        return self._similarity

    def embed(self, tokens: Tokens, side: Side) -> Float[Tensor, "text dim"]:
        """Vectors of the texts with these numbers, without a gradient."""
        encode = self.model.encode_query if side == "query" else self.model.encode_document
        texts = [self.texts[side][number] for number in tokens.ids]
        return self.scored(encode(texts, convert_to_tensor=True, show_progress_bar=False))

    def scored(self, vectors: Float[Tensor, "text dim"]) -> Float[Tensor, "text dim"]:
        """Vectors with the score as their inner product."""
        return self._scored(vectors)


class _CorrectionInTrainer(NoisyPairCorrection):
    """Correction with the Trainer's tokens; `features` are the current batch's, one group per column."""

    features: Features = ()

    @torch.no_grad()
    def teacher_scores(self, batch: Batch) -> Float[Tensor, "query passage"]:
        """The teacher's scaled scores of the batch's queries and columns."""
        teacher = cast(_SentenceEncoder, self.teacher)
        queries, *passages = (teacher.scored(teacher.model(one)["sentence_embedding"]) for one in self.features)
        scores: Float[Tensor, "query passage"] = self.params.scale * queries @ torch.cat(passages).T
        return scores


def _params(settings: Mapping[str, Any] | None, scale: float, beta: float) -> TrainNpcParams:
    """Settings of training.

    Raises:
        ConfigError: If a setting is of another group, or as an experiment's.
    """
    given = dict(settings or {})
    if others := [name for name in given if name.split(".")[0] not in ("npc", "npc_detect") and "ccr" not in name]:
        raise ConfigError("methods.loss_unknown_setting", setting=others[0])
    given = {"train.scale": scale, "train.ccr.beta": beta, **given}
    return from_settings({"name": "loss"}, overrides_of(given), "NoisyPairLoss").correction()


def _columns_of(pairs: Any) -> tuple[dict[str, list[Any]], list[float]]:
    """The columns of texts, or of lists of texts, and the weight of each row.

    Raises:
        DataError: If columns are missing or hold other values.
    """
    names = getattr(pairs, "column_names", None)
    if not isinstance(names, list) or not hasattr(pairs, "from_dict"):
        raise DataError("methods.loss_not_dataset", found=type(pairs).__name__)
    texts = [name for name in names if name != _WEIGHT]
    if _LABEL in names or len(texts) < 2:
        raise DataError("methods.loss_bad_columns", label=_LABEL, names=", ".join(names))
    columns = {name: list(pairs[name]) for name in texts}
    for place, (name, column) in enumerate(columns.items()):
        for value in column:
            if bad := [
                one for one in (value if place and isinstance(value, list) else [value]) if type(one) is not str
            ]:
                raise DataError("methods.loss_not_text", name=name, found=bad[0])
    weights = list(pairs[_WEIGHT]) if _WEIGHT in names else [1.0] * len(pairs)
    if wrong := [one for one in weights if not isinstance(one, int | float) or not 0 <= one < math.inf]:
        raise DataError("methods.loss_bad_weight", weight=_WEIGHT, found=wrong[0])
    return columns, weights


def _pairs_of(
    columns: Mapping[str, list[Any]], weights: Sequence[float]
) -> tuple[dict[str, list[str]], Float[np.ndarray, " pair"]]:
    """Columns with one text per pair of positive weight, and the weights; lists of negatives become columns.

    Raises:
        DataError: If no pair is left.
    """
    names = list(columns)
    listed = {name: [value if isinstance(value, list) else [value] for value in columns[name]] for name in names[1:]}
    places = [
        (row, text)
        for row, (found, weight) in enumerate(zip(listed[names[1]], weights, strict=True))
        for text in found
        if weight > 0
    ]
    if not places:
        raise DataError("methods.loss_no_pairs", weight=_WEIGHT)
    made = {names[0]: [columns[names[0]][row] for row, _ in places], names[1]: [text for _, text in places]}
    for name in names[2:]:
        for place in range(most := max(map(len, listed[name]), default=0)):
            column = name if most == 1 else f"{name}_{place + 1}"
            made[column] = [[*listed[name][row], *[_PADDING] * most][place] for row, _ in places]
    return made, np.array([weights[row] for row, _ in places], np.float32)


def _numbered(columns: list[list[str]]) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], TrainingPairs, Rows]:
    """The distinct queries and passages, the pairs by number, and each pair's passages by column."""
    queries, query = _distinct(columns[0])
    passages, numbers = _distinct([text for column in columns[1:] for text in column])
    by_column = numbers.reshape(len(columns) - 1, -1).T
    known = np.unique(np.stack([query, by_column[:, 0]], axis=1), axis=0)
    none = Ragged(np.zeros(len(queries) + 1, np.int64), np.empty(0, np.int64))
    pairs = TrainingPairs(
        queries=_whole_texts(len(queries)),
        passages=_whole_texts(len(passages)),
        query=query,
        passage=by_column[:, 0].copy(),
        text=np.arange(len(queries)),
        known=Ragged.grouped(known[:, 0], known[:, 1], len(queries)),
        negatives=none,
    )
    return (queries, passages), pairs, by_column


def _distinct(texts: list[str]) -> tuple[tuple[str, ...], Rows]:
    """The distinct texts, and the number of each given text."""
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    return tuple(encoded.dictionary.to_pylist()), np.asarray(encoded.indices, np.int64)


def _whole_texts(count: int) -> Tokens:
    return Tokens(np.arange(count, dtype=np.int32), np.arange(count + 1))
