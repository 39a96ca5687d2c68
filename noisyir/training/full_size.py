"""A training step at full size without memory, on fake tensors that have shapes but no values.

Models are built from their shapes, texts have full length, and the step is the learner's own, as on a GPU.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self
from warnings import catch_warnings
from weakref import ReferenceType

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from noisyir.base.errors import DataError, MissingPackageError
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.layout import Shape, read_layout
from noisyir.models.ranker import Ranker
from noisyir.models.settings import HeadedParams, InitModelParams, InitRankerParams
from noisyir.models.text_tokenizer import Tokens
from noisyir.models.transformer_tower import TransformerTower, quietly
from noisyir.models.weights import locate_weights
from noisyir.training.batches import Ragged, Rows, TrainingPairs
from noisyir.training.bi_encoder import BiEncoderLearner
from noisyir.training.learner import Contrastive, Learner, Objective
from noisyir.training.lists import Lists
from noisyir.training.settings import TrainDprParams

ALL = 1 << 62  # texts padded together: all have one length
_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
# Configs of models that papers start from, by the last part of their names.
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "bert-base-uncased": {"model_type": "bert"},
    "bert-large-uncased": {"model_type": "bert", **_LARGE},
    "ernie-2.0-base-en": {"model_type": "bert", "type_vocab_size": 4},
    "ernie-2.0-large-en": {"model_type": "bert", "type_vocab_size": 4, **_LARGE},
    "co-condenser-marco": {"model_type": "bert"},
    "unixcoder-base": {
        "model_type": "roberta", "vocab_size": 51416, "max_position_embeddings": 1026, "type_vocab_size": 10
    },
}  # fmt: skip


@dataclass(frozen=True)
class StepCost:
    """The cost of one step of a learner.

    texts: Number of trained texts by length in tokens.
    memory: Peak bytes of the stage: all models, gradients, AdamW's moments, activations.
    fewer: Setting that lowers the memory.
    """

    learner: str
    weights: int
    precision: str
    texts: Mapping[int, int]
    flops: int
    memory: int
    fewer: str


def costs(make: Callable[[], Sequence[Learner[Any]]]) -> list[StepCost]:
    """Return the cost of one step of each learner, with all optimiser moments allocated."""
    counted, fake = CountedWork(), SharedFakeTensorMode(allow_non_fake_inputs=True)
    with quietly(), catch_warnings(action="ignore"), fake, counted, NoValues():
        learners = make()
        for learner in learners:  # AdamW makes its moments when it first has a gradient
            optimiser: Any = learner.optimiser
            optimiser.adam.param_groups[0]["fused"] = True  # as on a GPU, in fewer operations
            for weight in learner.model.parameters():
                weight.grad = torch.zeros_like(weight) if weight.requires_grad else None
            optimiser.step(0.0)
        return [_cost(learner, counted) for learner in learners]


def _cost(learner: Learner[Any], counted: "CountedWork") -> StepCost:
    texts: Counter[int] = Counter()

    def see(module: nn.Module, args: Any, given: Mapping[str, Any]) -> None:
        rows, length = given["input_ids"].shape
        texts[length] += rows if torch.is_grad_enabled() else 0

    model: Any = learner.model
    hooks = [inner.register_forward_pre_hook(see, with_kwargs=True) for inner in model.transformers]
    counted.restart()
    learner.step()
    for hook in hooks:
        hook.remove()
    weights = sum(weight.numel() for weight in model.parameters())
    precision = learner.settings.precision
    flops, read = counted.flops * learner.parts, {size: many * learner.parts for size, many in texts.items()}
    return StepCost(learner.name, weights, precision, read, flops, counted.most, learner.fewer)


class SharedFakeTensorMode(FakeTensorMode):  # type: ignore[no-untyped-call]
    """A fake tensor mode that copies share, because teachers are copies of models and a copied mode crashes."""

    def __deepcopy__(self, memo: Any) -> Self:
        return self


class CountedWork(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A counter of FLOPs and of live tensor bytes; a value read from a fake tensor is 1."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = self.bytes = self.most = 0
        self._alive: dict[int, ReferenceType[Any]] = {}

    def restart(self) -> None:
        """Restart the counts; live tensors still count."""
        self.flops, self.most = 0, self.bytes

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.aten._local_scalar_dense.default and isinstance(args[0], FakeTensor):
            return np.ones((), _numpy_type(args[0])).item()
        found = func(*args, **kwargs)
        if formula := flop_registry.get(func._overloadpacket):
            self.flops += formula(*args, **kwargs, out_val=found)
        for value in tree_leaves(found):
            if isinstance(value, Tensor):
                self._see(value.untyped_storage())
        return found

    def _see(self, storage: Any) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place not in self._alive:
            self._alive[place] = ReferenceType(storage, partial(self._forget, place, size))
            self.bytes += size
            self.most = max(self.most, self.bytes)

    def _forget(self, place: int, size: int, _: Any) -> None:
        del self._alive[place]
        self.bytes -= size


class NoValues(TorchFunctionMode):
    """A mode that reads fake tensors as arrays of ones."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.numpy and isinstance(args[0], FakeTensor):
            return np.ones(tuple(args[0].shape), _numpy_type(args[0]))
        return func(*args, **(kwargs or {}))


def fused_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, *_: Any, dropout: float = 0.0, **more: Any
) -> tuple[Tensor, None]:
    """A GPU's attention, which keeps no attention weights; several queries may share a key."""
    if (times := query.shape[1] // key.shape[1]) > 1:
        key, value = (tensor.repeat_interleave(times, 1) for tensor in (key, value))
    fused = torch.ops.aten._scaled_dot_product_efficient_attention
    return fused(query, key, value, None, True, dropout)[0].transpose(1, 2), None


def _numpy_type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def bare_model(params: InitModelParams | HeadedParams, auto: str = "AutoModel", **changes: Any) -> Any:
    """Build the transformer that settings name from its config alone; `auto` is the class of transformers.

    Raises:
        DataError: If its folder is not here and its shape is unknown.
    """
    import transformers

    try:
        source = read_layout(locate_weights(params.weights)).towers["passage"]
        config = transformers.AutoConfig.from_pretrained(source, local_files_only=True, trust_remote_code=False)
    except (DataError, MissingPackageError) as error:
        if (shape := SHAPES.get((params.weights or "").rpartition("/")[2])) is None:
            raise DataError("training.unknown_shape", weights=params.weights) from error
        config = transformers.AutoConfig.for_model(**shape)
    config.update({**changes, **({} if params.layers is None else {"num_hidden_layers": params.layers})})
    transformers.AttentionInterface.register("fused", fused_attention)
    return getattr(transformers, auto).from_config(config, attn_implementation="fused")


def stand_in_tokenizer() -> str:
    """Return a tokenizer.json that frames texts and pairs as BERT's does."""
    from tokenizers import Tokenizer, models, processors

    tokenizer = Tokenizer(models.WordLevel({"a": 0, "[CLS]": 1, "[SEP]": 2}, unk_token="a"))
    framed = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1"}
    tokenizer.post_processor = processors.TemplateProcessing(**framed, special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    text: str = tokenizer.to_str()
    return text


def bi_encoder(params: InitModelParams) -> BiEncoder:
    """Build the initial retriever without weights."""
    files = {"tokenizer.json": stand_in_tokenizer()}
    towers = []
    for _ in range(1 if params.shared else 2):
        encoder = bare_model(params)
        encoder.pooler = None
        towers.append(TransformerTower(encoder, params.pooling or "mean", files))
    shape = Shape(
        "transformer", params.shared, params.pooling or "mean", params.similarity, "", "",
        params.query_max_len, params.passage_max_len,
    )  # fmt: skip
    found = BiEncoder(towers[0], towers[-1], shape)
    found.at_once = ALL
    return found


def ranker(params: InitRankerParams) -> Ranker:
    """Build the initial ranker without weights; it reads every pair at full length."""
    import transformers

    def read(queries: Sequence[str], documents: Sequence[str], **how: Any) -> Any:
        full = torch.from_numpy(np.ones((len(queries), params.max_len), np.int64))
        return transformers.BatchEncoding({"input_ids": full, "attention_mask": full})

    model = bare_model(params, "AutoModelForSequenceClassification", num_labels=1)
    found = Ranker(model, read, {}, params.max_len)
    found.at_once = ALL
    return found


def full_texts(count: int, length: int) -> Tokens:
    """Return `count` texts of `length` tokens."""
    return Tokens(np.zeros(count * length, np.int32), np.arange(count + 1, dtype=np.int64) * length)


def full_pairs(encoder: BiEncoder, batch_size: int, hard_negatives: int) -> TrainingPairs:
    """Return the pairs of one step with their negatives, no passage twice."""
    everyone, each = np.arange(batch_size), 1 + hard_negatives
    queries = full_texts(batch_size, encoder.shape.query_max_len)
    passages = full_texts(batch_size * each, encoder.shape.passage_max_len)
    own, others = _own_and_others(batch_size, each)
    return TrainingPairs(everyone, own.values, everyone, own, others, queries, passages)


def full_lists(count: int, n: int) -> Lists:
    """Return the lists of one step, no passage twice."""
    own, others = _own_and_others(count, 1 + n)
    queries, passages = (pa.array([""] * many, pa.large_string()) for many in (count, count * (1 + n)))
    none = Ragged(np.zeros(count + 1, np.int64), np.empty(0, np.int64))
    return Lists(queries, passages, own, others, np.arange(count), own, none)


def _own_and_others(count: int, each: int) -> tuple[Ragged, Ragged]:
    """Split each query's `each` passages into the first and the rest."""
    passages: Rows = np.arange(count * each).reshape(count, each)
    at = np.arange(count + 1)
    return Ragged(at, passages[:, 0]), Ragged(at * (each - 1), passages[:, 1:].ravel())


def constant_rng(*purpose: object) -> np.random.Generator:
    """Return the same generator for every purpose: random draws do not change a cost."""
    return np.random.default_rng(0)


def retriever_learners(
    params: TrainDprParams,
    start: Mapping[str, Any],
    objective: Callable[[BiEncoder, TrainingPairs], Objective] = lambda encoder, pairs: Contrastive(),
) -> list[Learner[Any]]:
    """Build the retriever's learner on the pairs of one step, from the settings of its start."""
    encoder = bi_encoder(start["model"])
    encoder.limit(params.freeze, params.lora, 0)
    pairs = full_pairs(encoder, params.batch_size, params.hard_negatives)
    return [BiEncoderLearner(encoder, pairs, None, params, objective(encoder, pairs), constant_rng)]
