"""The folder of a saved model: sentence-transformers' layout, with our settings in `noisyir.json`.

One tower:   modules.json -> StaticEmbedding | Transformer + Pooling [+ Normalize under cosine]
Two towers:  modules.json -> Router(query: ..., document: ...)       [+ Normalize under cosine]

No file names a library version or a path, so equal models are equal bytes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

from noisyir.base.errors import DataError
from noisyir.engine.outside_errors import in_our_words, is_lack_of_memory, one_line
from noisyir.models.text_tokenizer import SIDES, Side

INPUTS, OUTPUT = ("input_ids", "attention_mask"), "sentence_embedding"  # sentence-transformers' names
_LONGEST = 1 << 20  # tokens of a text
_TYPE = "sentence_transformers.models."
_ROUTE: Mapping[Side, str] = {"query": "query", "passage": "document"}  # ours -> sentence-transformers'


@dataclass(frozen=True)
class Shape:
    """All of a bi-encoder but its weights and tokenizer; lengths are in tokens, special ones included."""

    backbone: Literal["static", "transformer"]
    shared: bool
    pooling: Literal["mean", "cls", "last"]
    similarity: Literal["cosine", "dot"]
    query_prefix: str
    passage_prefix: str
    query_max_len: int
    passage_max_len: int
    matryoshka: tuple[int, ...] = ()  # lengths that a vector was trained to be cut to, ascending


@dataclass(frozen=True)
class Layout:
    """A model folder's own description, and the folder of each side's tower."""

    shape: Shape
    towers: Mapping[Side, Path]


def write_layout(folder: Path, shape: Shape, dim: int) -> dict[Side, Path]:
    """Write every file but the towers', and return the folder of each tower's files."""
    folder.mkdir(parents=True, exist_ok=True)
    prompts = {"query": shape.query_prefix, "document": shape.passage_prefix}
    described = {"default_prompt_name": None, "model_type": "SentenceTransformer", "prompts": prompts}
    write_json(folder / "config_sentence_transformers.json", described | {"similarity_fn_name": shape.similarity})
    write_json(folder / "noisyir.json", {name: value for name, value in asdict(shape).items() if value != ()})
    if shape.shared:
        chain = _write_chain(folder, ("", "1_Pooling"), shape, dim, sides=SIDES)
        towers: dict[Side, Path] = dict.fromkeys(SIDES, folder)
    else:
        chain = [("", "Router")]
        towers = _write_router(folder, shape, dim)
    if shape.similarity == "cosine":
        chain.append((f"{len(chain)}_Normalize", "Normalize"))
        write_json(folder / chain[-1][0] / "config.json", {})
    modules = [{"idx": i, "name": str(i), "path": path, "type": _TYPE + kind} for i, (path, kind) in enumerate(chain)]
    write_json(folder / "modules.json", modules)
    return towers


def _write_router(folder: Path, shape: Shape, dim: int) -> dict[Side, Path]:
    types, structure, towers = {}, {}, {}
    for side, route in _ROUTE.items():
        names = (f"{route}_0_{_tower_type(shape)}", f"{route}_1_Pooling")
        chain = _write_chain(folder, names, shape, dim, sides=(side,))
        types.update({path: _TYPE + kind for path, kind in chain})
        structure[route] = [path for path, _ in chain]
        towers[side] = folder / names[0]
    parameters = {"allow_empty_key": True, "default_route": None}
    write_json(folder / "router_config.json", {"parameters": parameters, "structure": structure, "types": types})
    return towers


def _write_chain(
    folder: Path, names: tuple[str, str], shape: Shape, dim: int, *, sides: Sequence[Side]
) -> list[tuple[str, str]]:
    """Write the settings of the modules between a text and its vector, and return their (path, type)."""
    if shape.backbone == "static":
        return [(names[0], "StaticEmbedding")]
    lengths = {f"{_ROUTE[side]}_length": getattr(shape, f"{side}_max_len") for side in sides}
    write_json(folder / names[0] / "sentence_bert_config.json", {"max_seq_length": max(lengths.values()), **lengths})
    named = ("cls_token", "mean_tokens", *(["lasttoken"] if shape.pooling == "last" else []))
    modes = {f"pooling_mode_{mode}": mode.startswith(shape.pooling) for mode in named}
    write_json(folder / names[1] / "config.json", {"word_embedding_dimension": dim, **modes})
    return [(names[0], "Transformer"), (names[1], "Pooling")]


def _tower_type(shape: Shape) -> str:
    return "StaticEmbedding" if shape.backbone == "static" else "Transformer"


def write_json(path: Path, value: Any) -> None:
    """Write JSON with equal bytes for equal values."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_layout(folder: Path) -> Layout:
    """Read a folder's layout: ours, another one of sentence-transformers, or a plain encoder.

    Raises:
        DataError: If it is none of them.
    """
    try:
        if (folder / "noisyir.json").exists():
            return _read_ours(folder)
        if (folder / "modules.json").exists():
            return _read_foreign(folder)
        if (folder / "config.json").exists():
            return _one_tower(folder, "transformer", _bare_pooling(folder), "cosine", {}, _transformer_length(folder))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if is_lack_of_memory(error):
            raise in_our_words(error) from error
        raise DataError("models.damaged_model", folder=folder, fault=broken_json(folder) or one_line(error)) from error
    raise DataError("models.not_a_model", folder=folder)


def checked_length(settings: Any, name: str) -> int:
    """Return a setting that is a length in tokens; raises ValueError without one."""
    length = settings.get(name) if isinstance(settings, dict) else None
    if type(length) is not int or not 0 < length <= _LONGEST:
        raise ValueError(f"{name} must be a number of tokens, found {length!r:.60}")
    return length


def _checked(settings: Any) -> Shape:
    """Build the shape that a file describes; raises TypeError or ValueError about bad settings."""
    lengths = settings.pop("matryoshka", []) if isinstance(settings, dict) else []
    if not isinstance(lengths, list) or any(type(length) is not int or length < 1 for length in lengths):
        raise ValueError(f"matryoshka must be numbers of dimensions, found {lengths!r:.60}")
    shape = Shape(**settings, matryoshka=tuple(lengths))
    for name, kind in get_type_hints(Shape).items():
        if name == "matryoshka":
            continue
        value, allowed = settings[name], get_args(kind)
        if (allowed and value not in allowed) or (not allowed and type(value) is not kind):
            raise ValueError(f"{name} must be {' or '.join(map(repr, allowed)) or kind.__name__}, found {value!r:.60}")
    for name in ("query_max_len", "passage_max_len"):
        checked_length(settings, name)
    return shape


def _read_ours(folder: Path) -> Layout:
    shape = _checked(read_json(folder / "noisyir.json"))
    if shape.shared:
        return Layout(shape, dict.fromkeys(SIDES, folder))
    kind = _tower_type(shape)
    return Layout(shape, {side: folder / f"{route}_0_{kind}" for side, route in _ROUTE.items()})


def _read_foreign(folder: Path) -> Layout:
    """Read Transformer + Pooling or StaticEmbedding, perhaps with Normalize: models that we can train."""
    modules = {
        module["type"].rsplit(".", 1)[-1]: folder / module["path"] for module in read_json(folder / "modules.json")
    }
    kinds = [kind for kind in modules if kind != "Normalize"]
    if kinds not in (["StaticEmbedding"], ["Transformer", "Pooling"]):
        raise ValueError(f"modules {' + '.join(modules)}; known are StaticEmbedding and Transformer + Pooling")
    tower, about = modules[kinds[0]], read_json(folder / "config_sentence_transformers.json")
    similarity, prompts = "cosine" if "Normalize" in modules else "dot", about.get("prompts", {})
    if kinds[0] == "StaticEmbedding":
        return _one_tower(tower, "static", "mean", similarity, prompts, _static_length(tower))
    pooling = _pooling(read_json(modules["Pooling"] / "config.json"))
    return _one_tower(tower, "transformer", pooling, similarity, prompts, _transformer_length(tower))


def _static_length(tower: Path) -> int:
    """Return a StaticEmbedding's truncation, if its tokenizer truncates."""
    truncation = read_json(tower / "tokenizer.json").get("truncation") or {"max_length": 1 << 20}
    return int(truncation["max_length"])


def _transformer_length(tower: Path) -> int:
    """Return the length that sentence-transformers derives from the files."""
    tokenizer = read_json(tower / "tokenizer_config.json").get("model_max_length", 1 << 20)
    stated = read_json(tower / "sentence_bert_config.json").get("max_seq_length") or tokenizer
    return int(min(stated, read_json(tower / "config.json").get("max_position_embeddings", 1 << 20)))


def _pooling(config: Mapping[str, Any]) -> str:
    """Return the pooling mode in either of sentence-transformers' spellings; raises ValueError about other modes."""
    modes = [key.removeprefix("pooling_mode_").removesuffix("_tokens") for key, on in config.items() if on is True]
    mode = config.get("pooling_mode") or [mode.removesuffix("_token") for mode in modes if mode != "include_prompt"]
    mode = mode if isinstance(mode, str) else "+".join(mode)
    if mode not in ("mean", "cls", "lasttoken"):
        raise ValueError(f"pooling {mode!r}; known are mean, cls and lasttoken")
    return mode.removesuffix("token")


def _bare_pooling(folder: Path) -> str:
    """Return the default pooling of a plain encoder, the mean; a decoder has none ('')."""
    config = read_json(folder / "config.json")
    heads = config.get("architectures") or []
    return "" if any(str(head).endswith("ForCausalLM") for head in heads) else "mean"


def _one_tower(
    tower: Path, backbone: Any, pooling: Any, similarity: Any, prompts: Mapping[str, str], length: int
) -> Layout:
    """Build the layout of a model with one tower and one length for both sides."""
    prefixes = prompts.get("query") or "", prompts.get("document") or prompts.get("passage") or ""
    shape = Shape(backbone, True, pooling, similarity, *prefixes, query_max_len=length, passage_max_len=length)
    return Layout(shape, dict.fromkeys(SIDES, tower))


def broken_json(folder: Path) -> str | None:
    """Describe the first file that must hold a JSON object and does not; None if all do."""
    for name in ("noisyir.json", "config.json", "tokenizer.json", "ranker.json", "reader.json"):
        try:
            if not isinstance(read_json(folder / name), dict):
                return f"{name} must hold a JSON object"
        except (OSError, ValueError, RecursionError) as error:
            return f"{name} must hold a JSON object, and has none: {one_line(error)}"
    return None


def read_json(path: Path) -> Any:
    """Read a file of a model, {} if there is none; raises ValueError, and DataError about one that names code."""
    if path.exists() and not path.is_file():
        raise ValueError(f"{path.name} is no file")
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if path.name == "config.json" and "auto_map" in found:
        raise DataError("models.own_code", folder=path.parent, kind=found.get("model_type"))
    return found
