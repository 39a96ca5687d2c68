"""Mining with a filter, from texts to negatives: 10 of each query's best 100 that score at most 95 % of its positive.

noisyir runs its stages in a store: encode, index, search, candidates, mine, with all they check and write.  The peer
has its texts in memory and a batch of 1,024 (its default of 32 is slower), and searches by torch, its default, or by
FAISS.  The model is static: its encoding costs least, so what is left is mining.  Loading model and texts is not timed;
the peak of memory is that of the whole process.
"""

from typing import Any, ClassVar

from bench.speed.row import Line, Row, Stopwatch, Taken, Work
from bench.speed.texts import Texts

_PASSAGES_A_QUERY = 4
_PEER = "sentence-transformers' mine_hard_negatives"


class Mining(Row):
    lines = (
        Line("mining with filters", "noisyir", "torch", f"{_PEER}, torch", at_least=1.7, unit="queries"),
        Line("mining with filters", "noisyir", "faiss", f"{_PEER}, FAISS", at_least=1.5, unit="queries"),
        Line("mining, peak memory", "noisyir", "torch", f"{_PEER}, torch", quantity="peak_mb"),
        Line("mining, peak memory", "noisyir", "faiss", f"{_PEER}, FAISS", quantity="peak_mb"),
    )
    size = 20_000
    turns = 3
    needs: ClassVar = {"faiss": ("faiss",)}
    grows = True

    def prepare(self, work: Work) -> None:
        from bench.speed.stages import build, training_tables

        tables = training_tables(Texts.read(work.texts), work.size, work.size // _PASSAGES_A_QUERY)
        build(_plan(tables), _store(work), set())

    def noisyir(self, work: Work) -> Taken:
        from bench.speed.stages import build, load_packages

        plan = _plan()
        load_packages()
        with Stopwatch() as watch:
            done, seconds = build(plan, _store(work), {step.stage.name for step in plan.steps[1:]})
        negatives = done["mine"].meta.artifacts["negatives"].rows
        return watch.taken(items=work.size // _PASSAGES_A_QUERY, negatives=negatives, stages=seconds)

    def torch(self, work: Work) -> Taken:
        return _theirs(work, faiss=False)

    def faiss(self, work: Work) -> Taken:
        return _theirs(work, faiss=True)


def _store(work: Work) -> Any:
    from noisyir.engine.store import Store

    return Store(work.folder / "store", home=work.folder)


def _plan(tables: Any = None) -> Any:
    from bench.speed.stages import from_texts_to_negatives
    from noisyir.mining.settings import MineParams

    mine = MineParams(rank_to=101, per_query=10, sampler="topk", filters={"relative_margin": 0.05})
    return from_texts_to_negatives(mine, tables)


def _theirs(work: Work, *, faiss: bool) -> Taken:
    import pyarrow.compute as pc
    from datasets import Dataset
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    from bench.speed.stages import READS, build, read
    from noisyir.engine.plan import Plan

    store = _store(work)
    done, _ = build(Plan(0, _plan().steps[:1]), store, set())
    given = {name: read(store, done["collection"], artifact) for name, artifact in READS.items()}
    passage = given["corpus"]["text"].take(pc.index_in(given["pairs"]["doc_id"], value_set=given["corpus"]["doc_id"]))
    pairs = Dataset.from_dict({"query": given["queries"]["text"].to_pylist(), "passage": passage.to_pylist()})
    corpus = given["corpus"]["text"].to_pylist()
    model = SentenceTransformer(str(store.builds.folder(done["collection"].meta.ref("model"))), device="cpu")
    with Stopwatch() as watch:
        mined = mine_hard_negatives(
            pairs, model, corpus=corpus, range_max=100, relative_margin=0.05, num_negatives=10, output_format="triplet",
            batch_size=1024, use_faiss=faiss, verbose=False,
        )  # fmt: skip
    return watch.taken(items=len(pairs), negatives=len(mined))
