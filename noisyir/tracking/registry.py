"""The model registry: trained retrievers under one name, found again by the digest of their files."""

import tempfile
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from noisyir.builds import Ref
from noisyir.errors import StoreError
from noisyir.tracking import MODEL_NAME
from noisyir.tracking.backend import Backend, connect
from noisyir.tracking.card import Card, usage

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

CHALLENGER = "challenger"
_ABOUT = "Dense retrievers trained by noisyir: texts in, one vector a text out.  `challenger` is the newest."
_REQUIRED = ("numpy", "safetensors", "sentence-transformers", "tokenizers", "torch", "transformers")
_EXAMPLE = (["how to parse a date"], {"side": "query"})


def register_retriever(
    backend: Backend, model: Ref, folder: Path, *, run_id: str, card: Card, tags: Mapping[str, str]
) -> str:
    """The registered version of a model artifact, by number; the `challenger` alias points at it afterwards.

    folder holds the artifact's files.  The same bytes are registered once: another call for them only brings the
    version's tags and description up to date.  Call it under `backend.exclusive`.
    """
    with backend.current():
        return _register(backend, model, folder, run_id=run_id, card=card, tags=tags)


def _register(backend: Backend, model: Ref, folder: Path, *, run_id: str, card: Card, tags: Mapping[str, str]) -> str:
    client = backend.client
    if not client.search_registered_models(f"name = '{MODEL_NAME}'"):
        client.create_registered_model(MODEL_NAME, description=_ABOUT)
    same_bytes = client.search_model_versions(f"name = '{MODEL_NAME}' and tags.artifact_digest = '{model.digest}'")
    number = str(same_bytes[0].version) if same_bytes else _upload(backend, model, folder, run_id, card)
    facts = {
        "artifact_key": model.key,
        "artifact_digest": model.digest,
        **({"eval_digest": card.eval_digest} if card.eval_digest else {}),
        **{name: f"{value:.6f}" for name, value in card.own.items()},
        **tags,
    }
    for name, value in facts.items():
        client.set_model_version_tag(MODEL_NAME, number, name, value)
    text = f"{card.text}\n\n{usage(f'models:/{MODEL_NAME}/{number}')}"
    client.update_model_version(MODEL_NAME, number, description=text)
    client.set_registered_model_alias(MODEL_NAME, CHALLENGER, number)
    return number


def artifact_key(uri: str, home: Path) -> str:
    """The artifact key behind `models:/NAME@ALIAS` or `models:/NAME/VERSION`.  StoreError when there is none."""
    return str(_find(uri, home).tags["artifact_key"])


def _find(uri: str, home: Path) -> "ModelVersion":
    backend = connect(home)
    from mlflow.exceptions import MlflowException

    path = uri.removeprefix("models:/")
    try:
        if "@" in path:
            return backend.client.get_model_version_by_alias(*path.rsplit("@", 1))
        name, _, number = path.rpartition("/")
        return backend.client.get_model_version(name, number)
    except MlflowException as error:
        raise StoreError(f"no registered model {uri} at {backend.uri}: {str(error).splitlines()[0]}") from error


def _upload(backend: Backend, model: Ref, folder: Path, run_id: str, card: Card) -> str:
    """Copy the model into MLflow, which must outlive the store's clean-up, and make a version of it.

    With explicit ids throughout: mlflow's `log_model` would act on process-wide and thread-local state.
    """
    from mlflow import pyfunc
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus, Metric
    from mlflow.models import Model

    from noisyir.models.transformer_tower import quietly

    client = backend.client
    run = client.get_run(run_id)
    logged = client.create_logged_model(
        run.info.experiment_id, MODEL_NAME, source_run_id=run_id, params=run.data.params, model_type="retriever"
    )
    client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
    with tempfile.TemporaryDirectory() as temporary, quietly():  # the example is encoded, to learn the signature
        packed = Path(temporary) / "model"
        pyfunc.save_model(
            packed,
            python_model=str(Path(__file__).with_name("pyfunc_model.py")),
            artifacts={"encoder": str(folder)},
            pip_requirements=_requirements(),
            input_example=_EXAMPLE,
            mlflow_model=Model(
                artifact_path=logged.artifact_location,
                model_uuid=logged.model_id,
                run_id=run_id,
                model_id=logged.model_id,
                metadata={"artifact_digest": model.digest},
            ),
        )
        client.log_model_artifacts(logged.model_id, str(packed))
    now = int(time.time() * 1000)
    values = [Metric(name, value, now, 0, model_id=logged.model_id) for name, value in card.own.items()]
    client.log_batch(run_id, metrics=values)
    client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
    made = client.create_model_version(MODEL_NAME, logged.model_uri, run_id, model_id=logged.model_id)
    return str(made.version)


def _requirements() -> list[str]:
    """What the model needs besides MLflow, as installed here; without local labels such as +cpu."""
    return [f"{name}=={version(name).split('+')[0]}" for name in _REQUIRED]
