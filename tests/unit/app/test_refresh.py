"""A refreshed index is the one that all documents together would have given, with only the new ones encoded."""

import json
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faiss
import numpy as np
import pyarrow.compute as pc
import pytest

from noisyir.app.lookup import find_model, newest_index
from noisyir.app.refresh import refresh_corpus
from noisyir.app.retention import unneeded
from noisyir.app.runs import Execution, run_experiment
from noisyir.app.system_search import answer
from noisyir.app.systems import System, indexes_of
from noisyir.base.errors import ConfigError, DataError, StoreError
from noisyir.data.settings import JoinCorpusParams
from noisyir.engine.meta import sealed, unsealed
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.provenance import lineage
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.front.cli import main
from noisyir.methods import experiments
from noisyir.methods.plans.data import data_of
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.settings import RefreshCorpusParams
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.registry.tracker import Tracker
from noisyir.retrieval.stages.encode import ENCODE
from noisyir.retrieval.stages.index import INDEX
from tests.refusals import refuses
from tests.tiny_models import WORDS, tiny_bert

RUNTIME = Runtime(device="cpu", threads=1)


def documents(*numbers: int, seed: int = 0) -> list[dict[str, str]]:
    """Texts of two to nine words; another seed gives other words."""

    def text(n: int) -> str:
        return " ".join(np.random.default_rng([seed, n]).choice(WORDS, 2 + n % 8))

    return [{"_id": f"d{n}", "title": WORDS[n % 60], "text": text(n)} for n in numbers]


def write_jsonl(path: Path, rows: list[dict[str, str]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class World:
    """One user's store; her corpora are indexed by an untrained model."""

    def __init__(self, folder: Path, weights: Path) -> None:
        self.folder, self.weights = folder, weights
        self.store = Store(folder / "store", home=folder)
        self.files = 0

    def index(self, rows: list[dict[str, str]], *settings: str, name: str = "tiny", facts=None) -> None:
        """Ingest, encode and index a corpus."""
        data = self.folder / name
        write_jsonl(data / "corpus.jsonl", rows)
        write_jsonl(data / "queries.jsonl", [{"_id": "q", "text": "w1 w2"}])
        (data / "qrels").mkdir()
        (data / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\nq\t{rows[0]['_id']}\t1\n")
        exp = experiments.from_settings(
            {"name": name, "data": {"kind": "beir", "path": str(data)}}, [f"model.weights={self.weights}", *settings]
        )
        tracker = Tracker()
        tracker.finish = lambda store, results: facts or {}
        run_experiment(exp, Choice(), Execution(store=self.store, runtime=RUNTIME, tracker=tracker), pipeline=indexed)

    def refresh(self, rows: list[dict[str, str]], *, remove: str = "", model: str = "tiny", **settings):
        self.files += 1
        new, gone = self.folder / f"new{self.files}.jsonl", self.folder / f"gone{self.files}.txt"
        gone.write_text(remove)
        data = JoinCorpusParams(
            path=str(write_jsonl(new, rows)) if rows else None, remove=str(gone) if remove else None
        )
        params = RefreshCorpusParams(model=model, data=data, **settings)
        return refresh_corpus(params, Execution(store=self.store, runtime=RUNTIME))

    def newest(self, model: str = "tiny"):
        return newest_index(self.store, find_model(self.store, model))

    def vectors(self, model: str = "tiny") -> np.ndarray:
        ref = self.newest(model).vectors.ref("doc_vectors")
        table = self.store.builds.table(ref)
        assert table["doc_row"].to_pylist() == list(range(len(table)))
        return np.array(table["vector"].to_pylist())

    def corpus(self, model: str = "tiny") -> list[dict[str, str]]:
        rows = self.store.builds.table(self.newest(model).corpus).to_pylist()
        assert [row.pop("doc_row") for row in rows] == list(range(len(rows)))
        return [{"_id": row["doc_id"], "title": row["title"], "text": row["text"]} for row in rows]

    def index_files(self, model: str = "tiny") -> dict[str, bytes]:
        folder = self.store.builds.folder(self.newest(model).index.ref("index"))
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    def search(self, query: str, model: str = "tiny"):
        ref = find_model(self.store, model)
        hits = answer(self.store, System(ref), indexes_of(self.store, System(ref)), query=query, k=8)
        return [hit["doc_id"] for hit in hits], [hit["score"] for hit in hits]


def indexed(exp: Experiment) -> Plan:
    plan = Plan(exp.seed)
    data = data_of(plan, exp)
    model = plan.add(INIT_MODEL, exp.model)["model"]
    vectors = plan.add(ENCODE, exp.encode, model=model, corpus=data["corpus"], queries=data["queries"])
    plan.add(INDEX, exp.index, doc_vectors=vectors["doc_vectors"])
    plan.keep(model=model)
    return plan


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture
def world(tmp_path: Path, weights: Path) -> World:
    return World(tmp_path, weights)


def check_equal(world: World, rows: list[dict[str, str]], *settings: str, bits: bool = True) -> None:
    """The refreshed corpus, vectors, index and hits are those of ingesting, encoding and indexing `rows` at once."""
    corpus, vectors, files = world.corpus(), world.vectors(), world.index_files()
    hits = [world.search(query) for query in ("w1 w2", rows[-1]["text"])]
    assert corpus == rows
    full = World(world.folder / f"full{world.files}", world.weights)
    full.index(rows, *settings)
    if bits:
        assert np.array_equal(vectors, full.vectors()) and files == full.index_files()
    np.testing.assert_allclose(vectors, full.vectors(), atol=1e-6)
    for (ids, scores), query in zip(hits, ("w1 w2", rows[-1]["text"]), strict=True):
        expected_ids, expected = full.search(query)
        assert ids == expected_ids
        np.testing.assert_allclose(scores, expected, atol=1e-5)


@pytest.mark.parametrize("settings", [(), ("encode.dtype=float16",)], ids=str)
def test_documents_are_added_as_if_they_had_been_there(world: World, settings):
    world.index(documents(*range(30)), *settings)
    before = world.index_files()
    done = world.refresh(documents(*range(28, 40)))
    assert done.counts == {
        "documents": {"added": 10, "replaced": 0, "removed": 0, "kept": 30, "unknown_removals": 0},
        "vectors": {"encoded": 10, "reused": 30},
        "index": {"added": 10, "kept": 30, "built_anew": None},
    }
    assert world.index_files() != before
    check_equal(world, documents(*range(40)), *settings)


def test_with_a_transformer_vectors_are_equal_to_1e_6(world: World):
    settings = ("model.backbone=transformer", "model.passage_max_len=64")
    world.index(documents(*range(12)), *settings)
    assert world.refresh(documents(*range(12, 17))).counts["vectors"] == {"encoded": 5, "reused": 12}
    check_equal(world, documents(*range(17)), *settings, bits=False)


def test_replaced_and_removed_documents_build_the_index_anew_from_reused_vectors(world: World):
    world.index(documents(*range(30)), "encode.shard_rows=7")
    renamed = {**documents(20)[0], "title": "w0"}
    done = world.refresh([*documents(4, 30, seed=1), renamed], remove="d0\nd9\n\nnobody\n")
    assert done.counts == {
        "documents": {"added": 1, "replaced": 2, "removed": 2, "kept": 26, "unknown_removals": 1},
        "vectors": {"encoded": 3, "reused": 26},
        "index": {"added": 0, "kept": 0, "built_anew": "4 of 30 earlier documents were replaced or removed"},
    }
    assert done.lines()["documents"].endswith("26 kept, 1 of --remove not in the corpus")
    new = {row["_id"]: row for row in [*documents(4, 30, seed=1), renamed]}
    rows = [new.get(row["_id"], row) for row in documents(*range(31)) if row["_id"] not in ("d0", "d9")]
    check_equal(world, rows, "encode.shard_rows=7")


@pytest.mark.parametrize("gone", [3, 19])
def test_documents_can_be_removed_alone(world: World, gone: int):
    world.index(documents(*range(20)))
    done = world.refresh([], remove=f"d{gone}\n")
    assert done.counts["index"]["built_anew"] == "1 of 20 earlier documents were replaced or removed"
    check_equal(world, [row for row in documents(*range(20)) if row["_id"] != f"d{gone}"])


def test_a_second_refresh_starts_from_the_first(world: World):
    world.index(documents(*range(20)))
    world.refresh(documents(20, 21))
    done = world.refresh(documents(21, 22, 3, seed=0) + documents(5, seed=1), remove="d20\n")
    assert done.counts["documents"] == {"added": 1, "replaced": 1, "removed": 1, "kept": 20, "unknown_removals": 0}
    assert done.counts["vectors"] == {"encoded": 2, "reused": 20}
    done = world.refresh(documents(23))
    assert done.counts["index"] == {"added": 1, "kept": 22, "built_anew": None}
    replaced = {"d5": documents(5, seed=1)[0]}
    rows = [replaced.get(row["_id"], row) for row in documents(*range(20), 21, 22, 23)]
    check_equal(world, rows)
    behind = {meta.stage for meta in lineage(world.store, [world.newest().index.ref("index")])}
    assert behind == {"ingest", "init_model", "encode", "index", "join_corpus", "encode_new", "extend_index"}


def test_the_same_documents_again_are_cached_and_another_index_can_be_asked_for(world: World):
    world.index(documents(*range(20)))
    first = world.refresh(documents(20, 21))
    assert (first.outcome.executed, first.outcome.experiment) == (3, "refresh-tiny")
    again = world.refresh(documents(20, 21))  # a file of another name, with the same bytes
    assert (again.outcome.executed, again.outcome.kept) == (0, first.outcome.kept)
    asked = world.refresh(documents(20, 21), rebuild=True)
    assert [name for name, result in asked.outcome.results.items() if not result.cached] == ["extend_index"]
    assert asked.counts["index"]["built_anew"] == "asked for"
    nothing = world.refresh(documents(3))  # known, and as it was
    assert nothing.counts["vectors"] == {"encoded": 0, "reused": 22}
    assert nothing.counts["index"] == {"added": 0, "kept": 22, "built_anew": None}
    check_equal(world, documents(*range(22)))


def test_what_an_index_learnt_stays_until_it_is_built_anew(world: World):
    world.index(documents(*range(60)), "index.factory=IVF4,Flat")

    def centroids() -> np.ndarray:
        path = world.store.builds.folder(world.newest().index.ref("index")) / "index.faiss"
        index = faiss.read_index(str(path))
        assert index.ntotal == len(world.corpus())
        return index.quantizer.reconstruct_n(0, 4)

    before = centroids()
    world.refresh(documents(*range(60, 90)))
    assert np.array_equal(centroids(), before)
    assert set(world.search(documents(75)[0]["text"])[0]) & {"d75"}
    world.refresh(documents(*range(60, 90)), rebuild=True)
    assert not np.allclose(centroids(), before)
    check_equal(world, documents(*range(90)), "index.factory=IVF4,Flat", bits=False)  # all lists are visited


def test_gc_keeps_what_a_refreshed_index_was_made_of_and_the_newest_index_of_a_registered_model(world: World):
    world.index(documents(*range(20)), facts={"registered": "noisyir-retriever v1"})
    world.refresh(documents(20))
    world.index(documents(1, 2), "model.passage_max_len=32", name="other")
    world.refresh(documents(3), model="other")
    assert unneeded(world.store, keep_runs=1, host="here") == {}
    doomed = [meta for meta, _ in unneeded(world.store, keep_runs=0, host="here").values()]
    for meta in doomed:
        world.store.builds.remove(meta)
    assert {meta.stage for meta in doomed} >= {"ingest", "encode", "index", "encode_new"}
    check_equal(world, documents(*range(21)))  # of the registered model nothing is gone
    assert world.refresh(documents(21)).counts["index"]["kept"] == 21


def test_what_cannot_be_read_or_makes_no_sense_is_refused(world: World, tmp_path: Path):
    world.index(documents(*range(5)))

    def refused(error: type[Exception], said: str, rows=(), **settings) -> None:
        with pytest.raises(error, match=said):
            world.refresh(list(rows), **settings)

    refused(ConfigError, "nothing to refresh with: give new documents, or --remove")
    refused(StoreError, "matches no experiment", documents(9), model="nobody")
    refused(DataError, r"line 2: document id 'd9' occurs again, first at 1", documents(9, 9))
    refused(DataError, r"line 1: document 'x' has no text; .* data.on_empty=exclude", [{"_id": "x", "text": " "}])
    refused(DataError, "lacks|has no column for document", [{"_id": "x", "title": "t"}])
    refused(DataError, "1 documents are both new and to be removed, for example 'd9'", documents(9), remove="d9\n")
    refused(DataError, "nothing is left of the corpus", remove="".join(f"d{n}\n" for n in range(5)))
    for path, said in [
        (tmp_path / "none.jsonl", "none.jsonl: set data.path"),
        (tmp_path, "holds no file of documents: one of corpus.jsonl"),
    ]:
        with pytest.raises(DataError, match=said):
            refresh_corpus(
                RefreshCorpusParams(model="tiny", data={"path": str(path)}),
                Execution(store=world.store, runtime=RUNTIME),
            )
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"_id": "x", "text": "w1"}\n{"_id": ')
    with refuses(DataError, "data.invalid_json"):
        refresh_corpus(
            RefreshCorpusParams(model="tiny", data={"path": str(broken)}), Execution(store=world.store, runtime=RUNTIME)
        )
    assert {meta.stage for meta in world.store.builds.all()} == {"ingest", "init_model", "encode", "index"}


def test_of_two_refreshes_at_once_both_add_their_documents(world: World):
    world.index(documents(*range(5)))
    files = [write_jsonl(world.folder / f"at-once-{n}.jsonl", documents(n)) for n in (5, 6)]

    def refresh(path: Path) -> None:
        params = RefreshCorpusParams(model="tiny", data={"path": str(path)})
        refresh_corpus(params, Execution(store=Store(world.store.root, home=world.folder), runtime=RUNTIME))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(refresh, files))
    assert {row["_id"] for row in world.corpus()} == {f"d{n}" for n in range(7)}


@pytest.mark.parametrize("repaired", [True, False])
def test_damage_in_a_refreshed_corpus_leaves_search_alive_and_the_advised_command_heals_it(
    world: World, capsys, caplog, repaired: bool
):
    world.index(documents(*range(20)))
    store = str(world.folder / "store")
    typed = ["refresh", "tiny", str(write_jsonl(world.folder / "new.jsonl", documents(20, 21))), "--store", store]
    assert main(typed) == 0
    before = world.corpus(), world.index_files(), world.search(documents(20)[0]["text"])
    (part,) = (world.folder / "store" / "join_corpus").glob("*/*/corpus/part-00000.parquet")
    part.write_bytes(part.read_bytes()[:-300])
    capsys.readouterr()
    if repaired:
        assert main(["store", "verify", "--repair", "--store", store]) == 0
        said = capsys.readouterr().out
        (advised,) = [line.partition(": ")[2] for line in said.splitlines() if line.startswith("build it again: ")]
    world.store = Store(world.folder / "store", home=world.folder)
    assert "d20" not in world.search(documents(20)[0]["text"])[0] and len(world.corpus()) == 20
    if not repaired:
        (advised,) = {text.partition("again: ")[2] for text in caplog.messages if "to have it again" in text.lower()}
    assert main(shlex.split(advised)[1:]) == 0
    assert (world.corpus(), world.index_files(), world.search(documents(20)[0]["text"])) == before
    assert main(["store", "verify", "--store", store]) == 0


def test_the_newest_refresh_is_built_upon_though_the_corpus_of_an_earlier_one_is_gone(world: World):
    world.index(documents(*range(20)))
    world.refresh(documents(20))
    world.store.builds.remove(world.store.builds.meta(world.newest().corpus))
    world.refresh(documents(20))  # builds upon the first index
    world.refresh(documents(21))
    first = next(meta for meta in world.store.builds.all() if meta.stage == "join_corpus")
    world.store.builds.remove(first)
    assert world.refresh(documents(22)).counts["documents"]["kept"] == 22
    check_equal(world, documents(*range(23)))


def test_a_model_without_an_index_is_an_error_that_says_what_to_run(world: World):
    world.index(documents(*range(5)))
    (index,) = [meta for meta in world.store.builds.all() if meta.stage == "index"]
    world.store.builds.remove(index)
    with refuses(StoreError, "app.model_without_index"):
        world.refresh(documents(9))


def test_vectors_of_another_version_are_not_mixed_with_new_ones(world: World):
    world.index(documents(*range(5)))
    (path,) = (world.folder / "store" / "encode").glob("*/*/_meta.json")
    path.write_text(sealed(unsealed(path.read_text()) | {"version": 0}))
    with refuses(StoreError, "app.build_of_other_version", stage="encode"):
        world.refresh(documents(9))


def test_empty_documents_can_be_left_out(world: World):
    world.index(documents(*range(5)))
    data = {"path": str(write_jsonl(world.folder / "some.jsonl", [*documents(5), {"_id": "x", "text": ""}]))}
    params = RefreshCorpusParams(model="tiny", data={**data, "on_empty": "exclude"})
    done = refresh_corpus(params, Execution(store=world.store, runtime=RUNTIME))
    assert done.counts["documents"]["added"] == 1
    assert done.outcome.results["join_corpus"].meta.notes["excluded"] == {"document: no text": 1}


def test_a_table_of_documents_and_a_folder_are_read_too(world: World):
    world.index(documents(*range(5)))
    folder = world.folder / "incoming"
    folder.mkdir()
    (folder / "corpus.tsv").write_text("id\ttitle\ttext\nd5\tw5\tw7 w8\n")
    for path in (folder / "corpus.tsv", folder):
        params = RefreshCorpusParams(model="tiny", data={"path": str(path)})
        done = refresh_corpus(params, Execution(store=world.store, runtime=RUNTIME))
        assert done.counts["documents"]["added"] == 1
    assert world.corpus()[-1] == {"_id": "d5", "title": "w5", "text": "w7 w8"}
    origins = done.outcome.results["join_corpus"].meta.ref("row_origins")
    table = world.store.builds.table(origins)
    assert table["earlier_row"].to_pylist() == [0, 1, 2, 3, 4, None] and pc.sum(table["doc_row"]).as_py() == 15
