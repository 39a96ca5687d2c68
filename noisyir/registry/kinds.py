"""Kinds of registered models: their names, and how they are loaded and called."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from noisyir.base.errors import ConfigError, suggested
from noisyir.base.variants import entries
from noisyir.methods.plans.experiment import Experiment

GROUP = "noisyir.registered"
OF_TRANSFORMERS = ("numpy", "pydantic", "safetensors", "tokenizers", "torch", "transformers")
_PAIR = {"query": "your question", "passage": "title and text"}


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of model.

    Attributes:
        kept: Its name among a run's results.
        folder: The code's name for the model's folder.
        example: An input, and the parameters of `predict` with their defaults.
        measure: Beginning of the names of measures that it is promoted by.
        start: The model that it was trained from, in words.
        home: A file in the folder of its code.
        floors: Systems of its run that a champion should beat.
    """

    name: str
    kept: str
    folder: str
    about: str
    example: tuple[Any, Mapping[str, Any] | None]
    usage: str
    measure: str
    requirements: tuple[str, ...]
    limits: str
    start: Callable[[Experiment], str]
    home: str = __file__
    floors: tuple[str, ...] = ()

    @property
    def code(self) -> Path:
        """The file of code that MLflow stores with the weights."""
        return Path(self.home).with_name(f"pyfunc_{self.noun}.py")

    @property
    def noun(self) -> str:
        """The name without prefix, such as retriever."""
        return self.name.removeprefix("noisyir-")


RETRIEVER = Kind(
    name="noisyir-retriever",
    kept="model",
    folder="encoder",
    about="Dense retrievers trained by noisyir: texts in, one vector a text out.",
    example=(["your question"], {"side": "query"}),
    usage="""queries = model.predict(["your question"])
passages = model.predict(["title and text"], params={"side": "passage"})
# the inner product of a query's vector and a passage's is their score""",
    measure="nDCG@10",
    requirements=("numpy", "safetensors", "sentence-transformers", "tokenizers", "torch", "transformers"),
    limits="Vectors of different versions do not compare: a promoted retriever needs the collection encoded again.",
    start=lambda exp: f"{exp.model.backbone} from {exp.model.weights}, {exp.model.similarity}",
    floors=("bm25", "zero_shot"),
)
RANKER = Kind(
    name="noisyir-ranker",
    kept="ranker",
    folder="ranker",
    about="Cross-encoders trained by noisyir: pairs of query and passage in, one relevance a pair out.",
    example=([_PAIR], None),
    usage="""scores = model.predict([{"query": "your question", "passage": "title and text"}])""",
    measure="nDCG@10",
    requirements=(*OF_TRANSFORMERS, "sentence-transformers"),
    limits="It was measured on what its own run's retriever found, so its measures are of the two together.",
    start=lambda exp: f"a cross-encoder from {exp.ranker.init.weights}",
    floors=("bm25",),
)


@cache
def kinds() -> tuple[Kind, ...]:
    """Every kind, other packages' included."""
    return (RETRIEVER, RANKER, *entries(GROUP))


def kind_of(name: str) -> Kind:
    """The kind registered under `name`, with or without `noisyir-`.

    Raises:
        ConfigError: If there is none.
    """
    if found := [kind for kind in kinds() if name in (kind.name, kind.noun)]:
        return found[0]
    raise ConfigError("registry.unknown_kind", name=name, others=suggested(name, [kind.name for kind in kinds()]))
