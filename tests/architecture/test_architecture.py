"""The shape of the code base, kept by machine: what is loaded when, who writes what, and what a wheel holds."""

import ast
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.sources import ROOT, SOURCES, arrows, nodes, place

MAY_NOT_IMPORT = {
    "noisyir": {"tasks", "flows", "prefect", "mlflow"},
    "tasks": {"flows", "mlflow", "torch"},
    "flows": {"mlflow", "torch"},
}
HEAVY = {"torch", "transformers", "sentence_transformers", "faiss", "pyserini", "jnius", "sklearn", "scipy", "mlflow",
         "prefect", "pandas", "matplotlib", "bm25s", "ir_measures", "numba"}  # fmt: skip
LIGHT_ENTRIES = [
    "noisyir",
    "noisyir.front.cli",
    "noisyir.methods.plans.planning",
    "noisyir.app.runs",
    "noisyir.front.commands.run",
    "noisyir.registry",
]


def imports(found: list[ast.AST], package: str) -> Iterator[str]:
    """Every module that a file imports, also lazily and for its types."""
    for node in found:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield node.module or ""
            if node.module == package:
                yield from (f"{package}.{alias.name}" for alias in node.names)


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Circles of modules that import one another; each is cut at one arrow, so that the next is found."""
    left, found = {module: set(others) for module, others in graph.items()}, []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            found.append(error.args[1])
            left[found[-1][1]].discard(found[-1][0])
        else:
            return found


def test_imports_point_downwards():
    faults = []
    for path, found in nodes().items():
        package = path.relative_to(ROOT).parts[0]
        used = {re.sub(r"^noisyir\.(?=(flows|tasks)\b)", "", module) for module in imports(found, package)}
        forbidden = {module.split(".")[0] for module in used} & MAY_NOT_IMPORT[package]
        if path.is_relative_to(ROOT / "noisyir" / "registry") or path.name.startswith("pyfunc_"):
            forbidden -= {"mlflow"}
        faults += [f"{place(path)} imports {module}" for module in sorted(forbidden)]
    assert not faults


def test_no_modules_import_one_another_in_a_circle():
    assert len(circles({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"e"}, "e": {"c"}, "f": {"a"}})) == 2
    assert circles(arrows()) == []


def test_nothing_heavy_is_loaded_before_a_stage_runs():
    loads = "; ".join(f"import {entry}" for entry in LIGHT_ENTRIES)
    code = f"import sys; {loads}; print(*sorted({{m.split('.')[0] for m in sys.modules}} & {HEAVY!r}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


def test_a_front_door_loads_nothing_of_what_it_names():
    code = "import sys, noisyir, noisyir.losses; print(*(m for m in sys.modules if m.startswith('noisyir.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["noisyir.losses"]


def test_every_table_has_one_writer_and_stages_are_unique():
    from noisyir.engine.known_stages import known_stages
    from noisyir.engine.stage import Stage

    assert len(known_stages()) >= 12
    stages = {id(v): v for name, m in list(sys.modules.items()) if name.startswith("noisyir.")
              for v in vars(m).values() if isinstance(v, Stage)}.values()  # fmt: skip
    assert len({stage.name for stage in stages}) == len(stages)
    writers: dict[str, set[str]] = {}
    for stage in stages:
        for artifact in (*stage.writes.values(), *stage.optional_writes.values()):
            writers.setdefault(artifact.name, set()).add(stage.name)
    trainers = {"train_dpr", "train_npc", "train_distill"}  # one loop, with different objectives
    several = {
        # as it is, in passages, with copies, with new or wrong documents
        "corpus": {"ingest", "chunk", "hide", "join_corpus", "corrupt"},
        "dense_run": {"search", "best_passages", "run_of_others"},
        "given_weights": {"given_weights", "weights_of_others"},
        "qrels": {"ingest", "chunk"},
        "given_negatives": {"ingest", "chunk", "judged_pairs"},
        "doc_vectors": {"encode", "encode_new"},
        "index": {"index", "extend_index"},
        "pairs": {"ingest", "chunk", "hide"},
        "model": {"init_model", *trainers, "train_ar2", "choose_model"},  # the last passes on one of several
        "ranker": {"init_ranker", "warm_up_ranker", "train_ar2"},
        "curves": {*trainers, "sieve", "warm_up_ranker", "train_ar2", "train_reader", "choose_model"},
        "reader": {"init_reader", "train_reader"},
        "readings": {"read", "ensemble"},
        "metrics": {"score", "score_reading"},
        "sections": {"label_section", "bench_section", "loss_section"},
        "verdicts": {"sieve", "cross_judge", "ranker_judge", "judge_negatives"},
        "candidates": {"candidates", "judge_negatives"},  # found, or given by the data
        # with the negatives that the data gives, or of a held-out split: for detectors alone
        "noisy_pairs": {"corrupt", "join_negatives", "judged_pairs"},
        "candidate_pool": {"pool_candidates", "import_scores"},  # found, or given by a file
        # of whole pools by one teacher, and of the lists that are chosen from them
        "teacher_scores": {
            "score_by_retrieval",
            "score_by_cross_encoder",
            "score_by_ranker",
            "import_scores",
            "choose_lists",
        },
        "pair_scores": {"score_pairs", "train_npc"},
        "noise_flags": {"detect", "train_npc"},
    }
    assert not {name for name, found in writers.items() if len(found) > 1 and not found <= several.get(name, set())}


@pytest.mark.parametrize(
    ("truth", "scoring", "names_it"),
    [
        ("noise_truth", {"score", "score_detection", "loss_section"}, "(?i)noise_truth"),
        ("hidden", {"score_negatives", "score_loss_groups"}, r"\bHIDDEN\b|['\"]hidden['\"]"),  # not: hidden states
    ],
)
def test_only_scoring_reads_the_truth_about_injected_noise(truth: str, scoring: set[str], names_it: str):
    from noisyir.engine.known_stages import known_stages

    readers = {
        name for name, stage in known_stages().items() for read in stage.reads.values() if read.artifact.name == truth
    }
    assert readers <= scoring
    topics = {"training", "models", "mining", "retrieval", "detection"}
    for path in SOURCES:
        if path.parent in {ROOT / "noisyir" / topic for topic in topics}:
            assert not re.search(names_it, path.read_text()), path


def test_the_wheel_ships_the_library_with_its_flows_and_nothing_else(tmp_path: Path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"noisyir"}
    assert {"noisyir/flows/train_retriever.py", "noisyir/tasks/stage_task.py"} <= set(names)
    assert "noisyir/methods/experiments/demo.yaml" in names
    assert "noisyir/audits/model_judges/prompt_v1.txt" in names
    assert any(name.startswith("noisyir/audits/templates/") for name in names)
    assert not any("tests" in name or name.endswith(".pyc") for name in names)


def test_the_store_is_its_parts():
    """Each part has its own methods, and the store no more than its parts and where it lies."""
    from noisyir.engine.store import Store

    store = Store("memory://parts", home=ROOT)
    assert len([name for name in dir(store) if not name.startswith("_")]) <= 20


def test_no_model_folder_brings_code_of_its_own():
    """Each call that loads one refuses its Python; without that, transformers asks in the middle of a run."""
    faults = []
    for path, found in nodes().items():
        for node in (each for each in found if isinstance(each, ast.Call)):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            if name == "from_pretrained" or (name == "SentenceTransformer" and "modules" not in given):
                said = given.get("trust_remote_code")
                shared = None in given and '"trust_remote_code": False' in path.read_text()
                if not (shared or (isinstance(said, ast.Constant) and said.value is False)):
                    faults.append(f"{place(path)}:{node.lineno}")
    assert not faults
