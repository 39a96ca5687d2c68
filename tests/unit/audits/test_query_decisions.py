"""Why a pair is where it is: every stage of a real run is asked, and says what its tables hold."""

import json
import re
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.audits.query_decisions import MAX_CHARS, decisions_on
from noisyir.audits.row_facts import Fact
from noisyir.audits.settings import AuditParams
from noisyir.audits.stages.audit import AUDIT
from noisyir.audits.stages.audit_negatives import AUDIT_NEGATIVES
from noisyir.base.artifact import Artifact
from noisyir.base.errors import DataError, StoreError
from noisyir.base.settings import Params
from noisyir.corruption.kinds.other_documents import AnyDocument
from noisyir.corruption.stages.corrupt import CORRUPT
from noisyir.data.artifacts import PAIRS
from noisyir.data.formats.beir import Beir
from noisyir.data.stages.ingest import INGEST
from noisyir.detection.detectors.basic import Bm25Margin
from noisyir.detection.settings import DetectParams, RepairParams
from noisyir.detection.stages.detect import DETECT, REPAIR
from noisyir.detection.stages.score_pairs import SCORE_PAIRS
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Stage
from noisyir.engine.store import Store
from noisyir.evaluation.settings import ScoreParams
from noisyir.evaluation.stages.score import SCORE
from noisyir.front.commands import show
from noisyir.methods.plans.experiment import Experiment
from noisyir.mining.artifacts import CANDIDATES, VERDICTS
from noisyir.mining.settings import CandidatesParams, MineParams
from noisyir.mining.stages.candidates import CANDIDATES as FIND_CANDIDATES
from noisyir.mining.stages.hard_negatives import MINE
from noisyir.models.settings import InitModelParams
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.retrieval.settings import Bm25IndexParams, Bm25Params, EncodeParams, IndexParams, SearchParams
from noisyir.retrieval.stages.bm25 import BM25, BM25_INDEX
from noisyir.retrieval.stages.encode import ENCODE
from noisyir.retrieval.stages.index import INDEX
from noisyir.retrieval.stages.search import SEARCH
from tests.refusals import refuses
from tests.tiny import write_beir

OPINIONS = Artifact("opinions", 1, {"query_id": pa.string(), "doc_id": pa.string(), "mood": pa.string()}, ("query_id",))


def have_opinions(job: Job[Params]) -> None:
    pairs = job.table("pairs")
    job.write("opinions", pairs.append_column("mood", pa.array(["glad"] * pairs.num_rows)))


OPINE = Stage(
    "opine", 1, Params, reads={"pairs": PAIRS["query_id", "doc_id"]}, writes={"opinions": OPINIONS}, run=have_opinions
)


def call_the_first_relevant(job: Job[Params]) -> None:
    """Of each query the candidates of even rank are judged, and the first of them is called relevant."""
    rows = [row for row in job.table("candidates").to_pylist() if row["rank"] % 2 == 0]
    best: dict[str, int] = {}
    for row in rows:
        best[row["query_id"]] = min(row["rank"], best.get(row["query_id"], row["rank"]))
    said = [(row["query_id"], row["doc_id"], 1 / row["rank"], row["rank"] > best[row["query_id"]]) for row in rows]
    verdicts = [(query, doc, score, 0.25, keep, "by rank") for query, doc, score, keep in said]
    job.write("verdicts", pa.table([list(column) for column in zip(*verdicts, strict=True)], schema=VERDICTS.schema))


REFEREE = Stage(
    "referee", 1, Params, reads={"candidates": CANDIDATES["query_id", "doc_id", "rank"]},
    writes={"verdicts": VERDICTS}, run=call_the_first_relevant,
)  # fmt: skip


def plan_of(exp: Experiment) -> Plan:
    """Every stage that decides about pairs, and one that `why` knows nothing of."""
    plan = Plan(exp.seed)
    data = plan.add(INGEST, exp.data)
    texts = {name: data[name] for name in ("corpus", "queries")}
    plan.add(OPINE, Params(), pairs=data["pairs"])
    known = {name: data[name] for name in ("qrels", "corpus", "answers")}
    noisy = plan.add(CORRUPT, exp.noise, pairs=data["pairs"], **known)["noisy_pairs"]
    lexical = plan.add(BM25_INDEX, Bm25IndexParams(engine="bm25s"), corpus=data["corpus"])
    ranked = plan.add(BM25, Bm25Params(splits=("train", "test"), top_k=20), "train", queries=data["queries"], **lexical)
    found = plan.add(FIND_CANDIDATES, CandidatesParams(rank_to=20), run=ranked["bm25_run"], pairs=noisy,
                     **{name: data[name] for name in ("queries", "answers", "corpus", "qrels")})  # fmt: skip
    mined = plan.add(MINE, MineParams(per_query=4, rank_to=20), pairs=noisy, **found)
    judged = plan.add(REFEREE, Params(), **found)
    plan.add(AUDIT_NEGATIVES, AuditParams().suspects(), pairs=noisy, verdicts={"referee": judged["verdicts"]},
             **found, **mined, **texts)  # fmt: skip
    start = plan.add(INIT_MODEL, exp.model)["model"]
    vectors = plan.add(ENCODE, EncodeParams(), "start", model=start, **texts)
    index = plan.add(INDEX, IndexParams(), "start", doc_vectors=vectors["doc_vectors"])
    run = plan.add(SEARCH, SearchParams(top_k=10), "start", query_vectors=vectors["query_vectors"],
                   corpus=data["corpus"], **index)  # fmt: skip
    plan.add(SCORE, ScoreParams(measures=("RR@10",)), "start", run=run["dense_run"],
             **{name: data[name] for name in ("qrels", "queries", "answers", "corpus")})  # fmt: skip
    scored = plan.add(SCORE_PAIRS, Bm25Margin(), "bm25", model=start, pairs=noisy,
                      **texts, **lexical)  # fmt: skip
    flags = plan.add(DETECT, DetectParams(method="gmm", assume="best"), scores={"bm25": scored["pair_scores"]})
    plan.add(REPAIR, RepairParams(relabel=1.0), pairs=noisy, flags=flags["noise_flags"])
    plan.add(AUDIT, AuditParams(), pairs=noisy, flags=flags["noise_flags"], estimate=flags["noise_estimate"],
             competitors=scored["competitors"], **texts)  # fmt: skip
    return plan


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, dict[str, pa.Table]]:
    """A store with one run, and what its steps wrote, by artifact."""
    home = tmp_path_factory.mktemp("why")
    folder = write_beir(home / "beir")
    with (folder / "corpus.jsonl").open("a") as corpus:
        corpus.write(json.dumps({"_id": "blank", "title": "", "text": " "}) + "\n")
    store = Store(home / "store", home=home)
    exp = Experiment(
        name="tiny",
        data=Beir(path=str(folder), on_empty="exclude"),
        noise=AnyDocument(rate=0.4),
        model=InitModelParams(backbone="static"),
    )
    outcome = run_experiment(exp, Choice(), Execution(store=store, runtime=Runtime(threads=1)), pipeline=plan_of)
    refs = [result.meta.ref(name) for result in outcome.results.values() for name in result.meta.artifacts]
    tables = {ref.artifact: store.builds.table(ref) for ref in refs if store.builds.contents(ref).rows}
    return store, tables


@pytest.fixture(scope="module")
def replaced(finished) -> dict[str, str]:
    """A flagged pair that was made wrong: query_id, the wrong doc_id, the true one, and its replacement."""
    _, tables = finished
    truth = tables["noise_truth"].filter(tables["noise_truth"]["is_noisy"]).select(["query_id", "doc_id"])
    flags = tables["noise_flags"]
    flagged = flags.filter(pc.and_(pc.invert(flags["is_clean"]), pc.is_valid(flags["replacement"])))
    pair = truth.join(flagged, ["query_id", "doc_id"], join_type="inner").sort_by("query_id").to_pylist()[0]
    given = tables["pairs"].to_pylist()
    return {**pair, "true": next(row["doc_id"] for row in given if row["query_id"] == pair["query_id"])}


def told(account) -> dict[str, list[Fact]]:
    return {one.artifact: one.facts for one in account.decided}


def test_a_wrong_pair_is_told_from_ingest_to_audit(finished, replaced):
    store, tables = finished
    query, wrong = replaced["query_id"], replaced["doc_id"]
    account = decisions_on(store, query, wrong)
    facts = told(account)
    assert facts["pairs"] == [Fact(f"not paired, unlike {replaced['true']}", wrong)]
    assert facts["noise_truth"] == [Fact("put in on purpose (uniform), wrong", wrong)]
    (flag,) = facts["noise_flags"]
    assert flag.doc_id == wrong and flag.event.startswith("epoch 0: flagged, chance of being right")
    assert f"(not flagged from 0.5); {replaced['replacement']} would be paired instead" in flag.event
    (suspicion,) = facts["pair_scores"]
    assert (suspicion.doc_id, suspicion.score) == (wrong, replaced["score"])
    assert suspicion.event.startswith("epoch 0: suspicion by bm25_margin, and ")
    scored = next(
        row for row in tables["pair_scores"].to_pylist() if (row["query_id"], row["doc_id"]) == (query, wrong)
    )
    middle = median(scored["near_scores"])
    assert f", {middle:.3f} with documents much like the best other one in its place; higher" in suspicion.event
    rank = next(
        row["rank"] for row in tables["competitors"].to_pylist() if (row["query_id"], row["doc_id"]) == (query, wrong)
    )
    (place,) = facts["competitors"]
    assert (place.doc_id, place.rank) == (wrong, rank) and place.score is not None
    assert place.event.startswith("ranked among all documents" if rank else "not found by the query's words")
    (verdict,) = facts["audit"]
    assert verdict.doc_id == wrong and verdict.event.startswith("suspect, no chance known")
    audited = next(row for row in tables["audit"].to_pylist() if (row["query_id"], row["doc_id"]) == (query, wrong))
    assert audited["reason"] in verdict.event
    ran = next(row for row in tables["bm25_run"].to_pylist() if row["query_id"] == query and row["rank"] == 1)
    first, *_, last = facts["bm25_run"]
    assert (first.doc_id, first.rank, first.score) == (ran["doc_id"], 1, ran["score"]) and last.doc_id == wrong
    (repaired,) = facts["repaired_pairs"]
    assert "was given instead" in repaired.event or "stays flagged" in repaired.event
    order = [one.artifact for one in account.decided]
    wanted = ["queries", "pairs", "noise_truth", "bm25_run", "pair_scores", "noise_flags", "repaired_pairs", "audit"]
    assert [name for name in order if name in wanted] == wanted
    assert all(row.get("doc_id", wrong) == wrong for one in account.decided for row in one.rows)
    assert account.query and {wrong, replaced["true"], replaced["replacement"]} <= account.texts.keys()


def test_the_true_document_is_told_apart_from_the_one_put_in(finished, replaced):
    store, _ = finished
    facts = told(decisions_on(store, replaced["query_id"], replaced["true"]))
    assert facts["pairs"] == [Fact("paired for train", replaced["true"])]
    assert facts["noise_truth"][0] == Fact("no longer paired", replaced["true"])
    assert facts["noise_truth"][1].doc_id == replaced["doc_id"]
    assert facts["qrels"] == [Fact("judged relevant (1)", replaced["true"])]
    assert "noise_flags" not in facts and "audit" not in facts


def test_a_query_alone_is_told_with_all_its_documents(finished, replaced):
    store, _ = finished
    account = decisions_on(store, replaced["query_id"])
    facts, both = told(account), {replaced["doc_id"], replaced["true"]}
    assert both <= account.texts.keys() and both <= {fact.doc_id for fact in facts["bm25_run"]}
    assert all(fact.rank or "not among" in fact.event for fact in facts["bm25_run"])
    *drawn, more = facts["negatives"]
    assert {fact.event for fact in drawn} == {"drawn as a hard negative"} and more == Fact("and 1 more")
    assert facts["pairs"] == [Fact("paired for train", replaced["true"])]


def test_negatives_name_the_drawn_and_deny_the_others(finished):
    store, tables = finished
    drawn = tables["negatives"].to_pylist()[0]
    (fact,) = told(decisions_on(store, drawn["query_id"], drawn["doc_id"]))["negatives"]
    assert fact == Fact("drawn as a hard negative", drawn["doc_id"])
    pair = next(row for row in tables["noisy_pairs"].to_pylist() if row["query_id"] == drawn["query_id"])
    (fact,) = told(decisions_on(store, pair["query_id"], pair["doc_id"]))["negatives"]
    assert fact == Fact("not drawn as a hard negative; 4 others were", pair["doc_id"])


def test_a_candidate_is_told_with_its_rank_its_judge_and_whether_it_was_drawn(finished):
    store, tables = finished
    drawn = {(row["query_id"], row["doc_id"]) for row in tables["negatives"].to_pylist()}
    ranks = {(row["query_id"], row["doc_id"]): row["rank"] for row in tables["candidates"].to_pylist()}
    for suspect in (
        next(row for row in tables["audit_negatives"].to_pylist() if row["used"] is used) for used in (True, False)
    ):
        pair = suspect["query_id"], suspect["doc_id"]
        facts = told(decisions_on(store, *pair))
        assert facts["candidates"] == [Fact("may become a hard negative", pair[1], ranks[pair])]
        (verdict,) = facts["verdicts"]
        assert verdict[:2] == ("dropped; its bound is 0.250 (by rank)", pair[1])
        assert verdict.score == pytest.approx(1 / ranks[pair])
        place = "drawn as a negative" if pair in drawn else "not drawn as a negative"
        (likely,) = facts["audit_negatives"]
        assert f", and {place}: {suspect['reason']}" in likely.event
    kept = next(row for row in tables["verdicts"].to_pylist() if row["keep"])
    (verdict,) = told(decisions_on(store, kept["query_id"], kept["doc_id"]))["verdicts"]
    assert verdict.doc_id == kept["doc_id"] and verdict.event.startswith("kept; ")


def test_what_was_no_candidate_and_what_no_judge_saw_is_told(finished):
    store, tables = finished
    odd = next(row for row in tables["candidates"].to_pylist() if row["rank"] % 2)
    unseen = told(decisions_on(store, odd["query_id"], odd["doc_id"]))
    assert unseen["verdicts"][0].event.startswith("not seen, but ")
    assert "audit_negatives" not in unseen
    pair = next(row for row in tables["noisy_pairs"].to_pylist() if row["query_id"] == odd["query_id"])
    (absent,) = told(decisions_on(store, pair["query_id"], pair["doc_id"]))["candidates"]
    assert absent.doc_id == pair["doc_id"] and absent.event.startswith("not among the ")
    whole = told(decisions_on(store, odd["query_id"]))
    rows = [row for row in tables["candidates"].to_pylist() if row["query_id"] == odd["query_id"]]
    assert [fact.rank for fact in whole["candidates"]] == [*sorted(row["rank"] for row in rows)[:3], None]
    assert whole["verdicts"][0].event.startswith("1 of ") and whole["verdicts"][1].event.startswith("dropped; ")
    assert whole["audit_negatives"][0].event.startswith("likely relevant, ")


def test_a_test_query_has_ranks_and_measures_in_the_step_that_made_them(finished):
    store, tables = finished
    account = decisions_on(store, "test3")
    mean = next(row["value"] for row in tables["metrics"].to_pylist() if row["query_id"] == "test3")
    by_step = {(one.step, one.artifact): one.facts for one in account.decided}
    assert by_step["score@start", "metrics"] == [Fact("RR@10 (split test)", score=mean)]
    assert ("search@start", "dense_run") in by_step and ("bm25@train", "bm25_run") in by_step
    assert account.split == "test" and ("corrupt", "noise_truth") not in by_step


def test_a_table_of_unknown_meaning_is_shown_as_it_is(finished, replaced, capsys):
    store, _ = finished
    (one,) = [one for one in decisions_on(store, replaced["query_id"]).decided if one.artifact == "opinions"]
    assert one.rows[0]["mood"] == "glad" and one.facts[0].doc_id == one.rows[0]["doc_id"]
    show.run(query=replaced["query_id"], store=store.url)
    assert "mood glad" in capsys.readouterr().out


def test_what_was_left_out_is_told(finished):
    store, _ = finished
    (fact,) = told(decisions_on(store, "train0", "blank"))["excluded"]
    assert fact == Fact("the document was left out: no text", "blank")


def test_the_command_prints_text_or_one_object(finished, replaced, capsys):
    store, _ = finished
    query, wrong = replaced["query_id"], replaced["doc_id"]
    assert show.run(query=query, document=wrong, store=store.url) == 0
    printed = capsys.readouterr().out
    assert "run of tiny" in printed and f"query {query}  " in printed and "\ncorrupt  " in printed
    assert re.search(rf"\n(?:bm25@train +|\w+ +){wrong} +(?:\d+ +\d\.\d{{3}} +of|not among)", printed)
    assert printed.index("\ncorrupt ") < printed.index("\ndetect ") < printed.index("\naudit ")
    assert show.run("tiny", query=query, document=wrong, as_json=True, store=store.url) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["query"]["query_id"] == query and found["doc_id"] == wrong
    flags = next(one for one in found["decided"] if one["artifact"] == "noise_flags")
    assert flags["rows"][0]["replacement"] == replaced["replacement"] and flags["facts"][0]["doc_id"] == wrong


def test_long_texts_are_cut(store: Store):
    def publish(job: Job[Params]) -> None:
        job.write("opinions", pa.table({"query_id": ["q"], "doc_id": ["d"], "mood": ["sad " * 200]}))
        job.write("queries", pa.table({"query_id": ["q"], "text": ["why? " * 200], "split": ["train"]}))

    from noisyir.data.artifacts import QUERIES

    stage = Stage("feel", 1, Params, reads={}, writes={"opinions": OPINIONS, "queries": QUERIES}, run=publish)

    def pipeline(exp: Experiment) -> Plan:
        plan = Plan(exp.seed)
        plan.add(stage, Params())
        return plan

    run_experiment(Experiment(name="long"), Choice(), Execution(store=store), pipeline=pipeline)
    account = decisions_on(store, "q")
    (mood,) = [row["mood"] for one in account.decided if one.artifact == "opinions" for row in one.rows]
    assert len(account.query) == len(mood) == MAX_CHARS and mood.endswith("…")


def test_unknown_names_get_a_near_match(finished, store: Store):
    full, _ = finished
    with refuses(DataError, "audits.unknown_in_run", kind="query", name="trian0"):
        decisions_on(full, "trian0")
    with refuses(DataError, "audits.unknown_in_run", kind="document", name="dd1"):
        decisions_on(full, "train0", "dd1")
    with refuses(StoreError, "audits.no_run_of_experiment", experiment="tinny") as caught:
        decisions_on(full, "train0", None, "tinny")
    assert str(caught.value).endswith("(did you mean tiny?); there are runs of tiny")
    with refuses(StoreError, "audits.no_finished_run"):
        decisions_on(store, "train0")


def test_only_finished_runs_are_asked(finished, tmp_path: Path):
    full, _ = finished
    newest = {**full.runs.all()[0], "experiment": "half", "status": "failed"}
    full.runs.record("99991231T235959999999-half", newest)
    try:
        assert decisions_on(full, "train0").experiment == "tiny"
    finally:
        full.fs.rm_file(f"{full.root}/.runs/99991231T235959999999-half.json")


def test_an_id_of_another_run_is_looked_for_there_and_what_gc_took_is_said(store: Store, tmp_path, capsys):
    def asked(name: str, version: int) -> None:
        def publish(job: Job[Params]) -> None:
            job.write("queries", pa.table({"query_id": [name], "text": [f"why {name}?"], "split": ["train"]}))

        from noisyir.data.artifacts import QUERIES

        def pipeline(exp: Experiment) -> Plan:
            plan = Plan(exp.seed)
            plan.add(Stage("ask", version, Params, reads={}, writes={"queries": QUERIES}, run=publish), Params())
            return plan

        run_experiment(Experiment(name=name), Choice(), Execution(store=store), pipeline=pipeline)

    for version, name in enumerate(("first", "second", "third"), 1):
        asked(name, version)
    assert decisions_on(store, "first").experiment == "first"
    with refuses(DataError, "audits.unknown_in_run", kind="query", name="frist"):
        decisions_on(store, "frist")
    with refuses(DataError, "audits.unknown_in_run", kind="query", name="first"):
        decisions_on(store, "first", experiment="second")
    for meta in store.builds.all():
        store.builds.remove(meta)
    with refuses(StoreError, "audits.run_tables_gone", experiment="third", run="noisyir run third"):
        decisions_on(store, "first")
