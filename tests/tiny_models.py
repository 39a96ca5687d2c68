"""Models small enough for tests, made from nothing: a two-layer BERT over a few dozen words."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from noisyir.models.bi_encoder import BiEncoder, initial_bi_encoder
from noisyir.models.layout import Shape
from noisyir.models.settings import InitModelParams
from noisyir.models.static_tower import StaticTower

if TYPE_CHECKING:
    from transformers import BertConfig

WORDS = tuple(f"w{number}" for number in range(60))
_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")


def tiny_bert(folder: Path, layers: int = 2, heads: int = 2) -> Path:
    """A random BERT of width 32 and its tokenizer, as Hugging Face saves them."""
    from transformers import BertModel

    _save_tokenizer(folder)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        BertModel(_config(layers, heads), add_pooling_layer=False).save_pretrained(folder)
    return folder


def tiny_decoder(folder: Path, kind: str = "Qwen3", padding: str = "left") -> Path:
    """A random decoder of the shape of Qwen3 or Llama, whose tokenizer ends each text with a token, as embedders do."""
    import transformers

    _save_tokenizer(folder, "$A [SEP]", padding_side=padding)
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(_SPECIALS) + len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, intermediate_size=64, max_position_embeddings=64, initializer_range=0.2,
        pad_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        getattr(transformers, f"{kind}ForCausalLM")(config).save_pretrained(folder)
    return folder


def tiny_classifier(folder: Path, labels: int = 1, seed: int = 0) -> Path:
    """The same as a classifier of text pairs; the weights are random."""
    from transformers import BertForSequenceClassification

    _save_tokenizer(folder)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        BertForSequenceClassification(_config(2, num_labels=labels)).save_pretrained(folder)
    return folder


def _save_tokenizer(folder: Path, single: str = "[CLS] $A [SEP]", **more: str) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: number for number, token in enumerate((*_SPECIALS, *WORDS))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", **more}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)


def _config(layers: int, heads: int = 2, **more: int) -> "BertConfig":
    from transformers import BertConfig

    return BertConfig(
        vocab_size=len(_SPECIALS) + len(WORDS), hidden_size=32, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=64, max_position_embeddings=64, initializer_range=0.2, **more,
    )  # fmt: skip


def tiny_encoder(bert: Path, **params: object) -> BiEncoder:
    """A bi-encoder from a tiny BERT's folder; `params` are those of `InitModelParams`."""
    shape = InitModelParams.model_validate({"query_max_len": 12, "passage_max_len": 16, **params})
    return initial_bi_encoder(bert, shape).eval()


def static_encoder(vectors: torch.Tensor, similarity: str = "cosine", *, shared: bool = True) -> BiEncoder:
    """A static bi-encoder of given word vectors: row i is that of the word `w<i>`, any other word's is zero."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {f"w{number}": number for number in range(len(vectors))} | {"[UNK]": len(vectors)}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    weight = torch.cat([vectors, torch.zeros(1, vectors.shape[1])])
    passage = StaticTower(weight, words.to_str())
    query = passage if shared else StaticTower(weight.clone(), words.to_str())
    return BiEncoder(query, passage, Shape("static", shared, "mean", similarity, "", "", 16, 16)).eval()
