"""Kinds of registered models: a name for each that a run keeps, and how that kind is loaded and called."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from noisyir.base.errors import ConfigError, did_you_mean
from noisyir.base.variants import entries
from noisyir.methods.plans.experiment import Experiment


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of model.

    kept: what the run's results call it; folder: what the code calls the model's folder; example: an input, and the
    parameters of `predict` with their defaults; measure: how the names of what it is promoted by begin;
    start: what it was trained from, in words; home: the file beside which its code lies; floors: systems of its run
    that a champion should be better than.
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
        """The file that MLflow stores with the weights."""
        return Path(self.home).with_name(f"pyfunc_{self.noun}.py")

    @property
    def noun(self) -> str:
        """Such as retriever or ranker."""
        return self.name.removeprefix("noisyir-")


OF_TRANSFORMERS = ("numpy", "pydantic", "safetensors", "tokenizers", "torch", "transformers")

_PAIR = {"query": "how to parse a date", "passage": "strptime turns a text into a date and time"}

RETRIEVER = Kind(
    name="noisyir-retriever",
    kept="model",
    folder="encoder",
    about="Dense retrievers trained by noisyir: texts in, one vector a text out.",
    example=(["how to parse a date"], {"side": "query"}),
    usage="""queries = model.predict(["how to parse a date"])
passages = model.predict(["title text"], params={"side": "passage"})
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
    usage="""scores = model.predict([{"query": "how to parse a date", "passage": "title text"}])""",
    measure="nDCG@10",
    requirements=OF_TRANSFORMERS,
    limits="It was measured on what its own run's retriever found, so its measures are of the two together.",
    start=lambda exp: f"a cross-encoder from {exp.ranker.init.weights}",
    floors=("bm25",),
)
GROUP = "noisyir.registered"


@cache
def kinds() -> tuple[Kind, ...]:
    """Every kind: the two of retrieval, and those that packages bring."""
    return (RETRIEVER, RANKER, *entries(GROUP))


def kind_of(name: str) -> Kind:
    """The kind that is registered under `name`, which may lack its `noisyir-`.  ConfigError where there is none."""
    if found := [kind for kind in kinds() if name in (kind.name, kind.noun)]:
        return found[0]
    names = [kind.name for kind in kinds()]
    raise ConfigError(
        "registry.unknown_kind", name=name, did_you_mean=did_you_mean(name, names), names=", ".join(names)
    )
