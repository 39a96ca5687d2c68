"""Kinds of registered models: a name for each that a run keeps, and how that kind is loaded and called."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noisyir.errors import ConfigError, did_you_mean


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of model.

    kept: what the run's results call it; folder: what the code calls the model's folder; example: an input, and the
    parameters of `predict` with their defaults; measure: how the names of what it is promoted by begin;
    floors: systems of its run that a champion should be better than.
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
    floors: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The file beside this one that MLflow stores with the weights."""
        return f"pyfunc_{self.noun}.py"

    @property
    def noun(self) -> str:
        """retriever, ranker or reader."""
        return self.name.removeprefix("noisyir-")


_TRANSFORMER = ("numpy", "pydantic", "safetensors", "tokenizers", "torch", "transformers")

_PAIR = {"query": "how to parse a date", "passage": "strptime turns a text into a date and time"}
_ASKED = {"question": "Who wrote Faust?", "passage": "Faust is a play by Goethe."}

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
    limits="Vectors of different versions do not compare: a promoted retriever needs the collection encoded anew.",
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
    requirements=_TRANSFORMER,
    limits="It was measured on what its own run's retriever found, so its measures are of the two together.",
    floors=("bm25",),
)
READER = Kind(
    name="noisyir-reader",
    kept="reader",
    folder="reader",
    about="Extractive readers trained by noisyir: question and passage in, the best span and its score out.",
    example=([_ASKED], {"max_answer_len": 30, "stride": 128}),
    usage="""answers = model.predict([{"question": "Who wrote Faust?", "passage": "Faust is a play by Goethe."}])
answers[0]["answer"], answers[0]["score"]  # of several passages, the highest score is the answer""",
    measure="F1",
    requirements=_TRANSFORMER,
    limits="It always names a span: it was not trained to say that a passage holds no answer.",
)
KINDS = (RETRIEVER, RANKER, READER)


def kind_of(name: str) -> Kind:
    """The kind that is registered under `name`, which may lack its `noisyir-`.  ConfigError where there is none."""
    if found := [kind for kind in KINDS if name in (kind.name, kind.noun)]:
        return found[0]
    names = [kind.name for kind in KINDS]
    raise ConfigError(
        f"no registered model is called {name!r}{did_you_mean(name, names)}; there are {', '.join(names)}"
    )
