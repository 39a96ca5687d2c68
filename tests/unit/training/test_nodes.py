"""Two machines under torchrun, each an agent of its own, train the same models as one process."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest

import noisyir
from noisyir.engine.store import Store
from noisyir.models.bi_encoder import load_bi_encoder
from tests.local import free_port, until
from tests.tiny import SETTINGS, write_beir
from tests.tiny_models import tiny_bert

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """The arguments of a run that trains by DPR, NPC and AR2, with models small enough for tests."""
    data, bert = write_beir(tmp_path_factory.mktemp("beir")), tiny_bert(tmp_path_factory.mktemp("bert"))
    mined = ["mine.per_query=6", "mine.rank_to=20", "mine.run=dense"]
    rounds = ["ar2.rounds=1", "ar2.ranker_steps=3", "ar2.retriever_steps=4", "ar2.n=5", "ar2.ranker_batch_size=8"]
    ranker = [f"ranker.init.weights={bert}", "ranker.init.max_len=32"]
    given = [f"data.path={data}", "methods=[dpr,npc,ar2]", "npc.warmup_epochs=1", "runtime.device=cpu"]
    return ["run", "demo", *SETTINGS, *given, *mined, *rounds, *ranker, "--no-track"]


@pytest.fixture(scope="module")
def of_one_process(experiment, tmp_path_factory):
    home = tmp_path_factory.mktemp("one")
    subprocess.run([sys.executable, "-m", "noisyir.front.cli", *experiment], env=_home(home), check=True)
    return vectors(home)


def _home(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "NOISYIR_HOME": str(folder), "OMP_NUM_THREADS": "1", **more}


def agents(homes: list[Path], arguments: list[str]) -> list[subprocess.Popen[bytes]]:
    """torchrun's agent of each machine, each with one process; what a machine says is in its home."""
    program = [sys.executable, "-m", "torch.distributed.run", f"--nnodes={len(homes)}", "--nproc-per-node=1",
               "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}", "--local-addr=127.0.0.1",
               "-m", "noisyir.front.cli", *arguments]  # fmt: skip
    started = []
    for number, home in enumerate(homes):
        home.mkdir(exist_ok=True)
        with (home / f"said-{number}").open("wb") as said:
            started.append(subprocess.Popen(program, env=_home(home), stderr=said, start_new_session=True))
    return started


def processes_of(home: Path) -> list[psutil.Process]:
    """The processes that work for this home."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("NOISYIR_HOME") == str(home):
                found.append(process)
    return found


def vectors(home: Path, url: str = "") -> dict[str, np.ndarray]:
    """What every trained model makes of a text, by the key of its build."""
    store, found = Store(url or str(home / "store"), home=home), {}
    for meta in store.builds.all():
        if "model" in meta.artifacts and meta.stage.startswith("train"):
            encoder = load_bi_encoder(store.builds.folder(meta.ref("model")), "cpu")
            texts = encoder.tokenize(["w1 w2 w3", "w7 w40"], "query")
            found[f"{meta.stage}-{meta.key}"] = encoder.embed(texts, "query").detach().numpy()
    return found


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return found.keys() == expected.keys() and all(
        np.allclose(found[name], expected[name], atol=1e-5) for name in expected
    )


def test_two_machines_train_the_models_of_one_process(experiment, of_one_process, tmp_path):
    started = agents([tmp_path, tmp_path], experiment)
    assert [agent.wait(600) for agent in started] == [0, 0]
    assert len(of_one_process) >= 3
    assert same(vectors(tmp_path), of_one_process)
    notes = [meta.notes for meta in Store(str(tmp_path / "store"), home=tmp_path).builds.all()]
    assert {note.get("processes") for note in notes} == {None, 2}


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("lost", [0, 1])
def test_a_lost_agent_ends_the_run_soon_and_one_machine_goes_on_from_the_store(
    lost, experiment, bucket, tmp_path, monkeypatch
):
    """Machines that share nothing but S3, and `kill -9` of an agent alone, which leaves its processes behind."""
    monkeypatch.setenv("NOISYIR_LEASE_SECONDS", "10")
    longer = [*experiment, "methods=[dpr]", "train.epochs=100", "train.learning_rate=0.001", "--to", "train_dpr"]
    often = [*longer, "--store", bucket, "runtime.checkpoint_seconds=0.01"]
    homes = [tmp_path / name for name in ("one", "two")]
    started = agents(homes, often)
    fs = Store(bucket, home=tmp_path).fs
    until(lambda: fs.find(f"{bucket}/.work") or any(agent.poll() is not None for agent in started), 600)
    assert fs.find(f"{bucket}/.work")
    started[lost].kill()
    assert started[1 - lost].wait(120) != 0
    # Who tells depends on who dies first: the process without an agent, or the one whose peer is gone.
    said = "".join((home / f"said-{number}").read_text() for number, home in enumerate(homes))
    # torchrun's own agent may print the traceback of a meeting point that is gone; ours ends in a line.
    assert "noisyir: " in said and f'File "{Path(noisyir.__file__).parent}' not in said
    until(lambda: not any(map(processes_of, homes)))

    third, alone = tmp_path / "three", tmp_path / "alone"
    subprocess.run([sys.executable, "-m", "noisyir.front.cli", *often], env=_home(third), check=True)
    (trained,) = [meta for meta in Store(bucket, home=third).builds.all() if meta.stage == "train_dpr"]
    assert trained.notes["resumed_with_processes"] == {"before": 2, "now": 1}
    subprocess.run([sys.executable, "-m", "noisyir.front.cli", *longer], env=_home(alone), check=True)
    assert same(vectors(third, bucket), vectors(alone))
