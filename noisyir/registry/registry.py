"""The model registry: trained models under one name a kind, identified by the digest of their files."""

import json
import logging
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version as version_installed
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import yaml

from noisyir.base.errors import StoreError
from noisyir.engine.meta import Ref, contents_of
from noisyir.engine.outside_errors import one_line, without_password
from noisyir.registry.backend import Backend, connect
from noisyir.registry.card import HYBRID_FILE, Card, Version, usage
from noisyir.registry.kinds import Kind, kinds
from noisyir.registry.stage_runs import dataset

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

CHALLENGER, CHAMPION = "challenger", "champion"
_ABOUT = """{about}

`champion-NAME` passed the gate of `noisyir promote` for the experiment NAME, and `challenger-NAME` is its newest;
`champion` is the champion of one experiment, `challenger` the newest of all. Each version's page is a card: data,
noise, measures, use, limits. Tags and the way to a champion are on the page docs/operate/registry.md."""
_MOST_VERSIONS = 10_000
_OF_PROMOTION = "promot"  # begins the tags that registering leaves alone


@dataclass(frozen=True)
class Origin:
    """The MLflow run of a version, and tags that every version gets."""

    run_id: str
    experiment_id: str
    tags: Mapping[str, str]


def register(backend: Backend, kind: Kind, model: Ref, folder: Path, card: Card, origin: Origin) -> str:
    """The number of a model artifact's version, which becomes the challenger; call it under `backend.exclusive`.

    Equal bytes are registered once: another call only updates the version's tags and description, if it has measures.
    The champion of another experiment keeps its own.
    """
    client = backend.client
    with backend.current():
        about = _ABOUT.format(about=kind.about)
        if not client.search_registered_models(f"name = '{kind.name}'"):
            client.create_registered_model(kind.name, description=about)
        elif client.get_registered_model(kind.name).description != about:
            client.update_registered_model(kind.name, description=about)
        same_bytes = client.search_model_versions(f"name = '{kind.name}' and tags.artifact_digest = '{model.digest}'")
        number = str(same_bytes[0].version) if same_bytes else _upload(backend, kind, model, folder, card, origin)
        known = client.get_model_version(kind.name, number)  # what a search finds has no aliases
        if not same_bytes or (card.own and not _leads_another(known, card)):
            _describe(backend, kind, known, card, origin)
        if card.own:
            _measure(client, _logged(known), card, origin)
        for alias in (CHALLENGER, alias_of(CHALLENGER, card.tags.get("experiment"))):
            client.set_registered_model_alias(kind.name, alias, number)
    return number


def _leads_another(version: "ModelVersion", card: Card) -> bool:
    """Whether a version is the champion of another experiment than the card's."""
    another = version.tags.get("experiment") != card.tags.get("experiment")
    return another and any(alias.partition("-")[0] == CHAMPION for alias in version.aliases)


def alias_of(role: str, experiment: str | None) -> str:
    """The alias of an experiment's champion or challenger, such as `champion-pairs`; None: the one without a name."""
    return f"{role}-{re.sub(r'[^A-Za-z0-9_-]', '_', experiment)}" if experiment else role


def champion_of(backend: Backend, name: str, experiment: str | None) -> Version | None:
    """The experiment's champion, if there is one; None: the one without a name."""
    own, plain = (aliased(backend, name, alias_of(CHAMPION, given)) for given in (experiment, None))
    mine = plain if plain and experiment in (None, plain.tags.get("experiment")) else None
    return mine or own


def aliased(backend: Backend, name: str, alias: str) -> Version | None:
    """The version with an alias, if there is one."""
    from mlflow.exceptions import MlflowException

    try:
        found = backend.client.get_model_version_by_alias(name, alias)
    except MlflowException as error:  # an alias that is not set, and a model that is not there
        if error.error_code not in ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"):
            raise
        return None
    return Version(str(found.version), found.tags)


def digests_of_versions(home: Path) -> set[str]:
    """Digests of the artifacts behind all registered versions."""
    client = connect(home).client
    found: set[str] = set()
    for kind in kinds():
        token: str | None = ""
        while token is not None:
            page = client.search_model_versions(f"name = '{kind.name}'", page_token=token or None)
            found |= {digest for version in page if (digest := version.tags.get("artifact_digest"))}
            token = page.token or None
    return found


@dataclass(frozen=True)
class RegisteredCopy:
    """MLflow's copy of a registered model's files, the digest that it was registered with, and the version's tags."""

    version: str
    folder: Path
    digest: str
    tags: Mapping[str, str]

    @property
    def is_whole(self) -> bool:
        """Whether the files still have the digest; all are read."""
        return self.folder.is_dir() and contents_of(self.folder, 0, None).digest == self.digest


def copies_of_versions(home: Path) -> list[RegisteredCopy]:
    """Copies of noisyir's versions with their files on this machine."""
    client, found = connect(home).client, []
    for kind in kinds():
        for version in client.search_model_versions(f"name = '{kind.name}'", max_results=_MOST_VERSIONS):
            logged = client.get_logged_model(_logged(version))
            place, digest = urlsplit(logged.artifact_location), version.tags.get("artifact_digest")
            if digest and place.scheme in ("", "file"):
                folder = _files_in(Path(unquote(place.path)), kind)
                found.append(RegisteredCopy(f"{kind.name} v{version.version}", folder, digest, version.tags))
    return found


def _logged(version: "ModelVersion") -> str:
    """The id of the logged model behind a version."""
    return str(version.source).removeprefix("models:/")


def _files_in(logged: Path, kind: Kind) -> Path:
    """The folder of a model's own files in MLflow's; its usual name if MLmodel is damaged."""
    try:
        about = yaml.safe_load((logged / "MLmodel").read_text("utf-8"))
        return logged / str(about["flavors"]["python_function"]["artifacts"][kind.folder]["path"])
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError):
        return logged / "artifacts" / kind.kept


def find_version(backend: Backend, uri: str) -> "ModelVersion":
    """The version at `models:/NAME@ALIAS` or `models:/NAME/VERSION`.

    Raises:
        StoreError: If there is none, or noisyir did not register it.
    """
    from mlflow.exceptions import MlflowException

    path = uri.removeprefix("models:/")
    try:
        if "@" in path:
            found = backend.client.get_model_version_by_alias(*path.rsplit("@", 1))
        else:
            name, _, number = path.rpartition("/")
            found = backend.client.get_model_version(name, number)
    except MlflowException as error:
        cure = f"noisyir status lists those with an alias: {one_line(error)}"
        if any(f"Registered Model with name={kind.name} not found" in str(error) for kind in kinds()):
            cure = "nothing has that name yet: noisyir run EXPERIMENT registers a model worth using, with --force any"
        raise StoreError(
            "registry.unknown_version", uri=uri, registry=without_password(backend.uri), cure=cure
        ) from error
    if "artifact_digest" not in found.tags:
        raise StoreError("registry.foreign_version", uri=uri)
    return found


def _measure(client: "MlflowClient", model_id: str, card: Card, origin: Origin) -> None:
    """Log the model's measures, tied to the data that gave them, which becomes an input of the run."""
    from mlflow.entities import Metric

    given = dataset(f"{card.tags['experiment']} evaluation", card.tags["eval_digest"], "evaluation")
    client.log_inputs(origin.run_id, datasets=[given])
    data, now = given.dataset, int(time.time() * 1000)
    about = {"dataset_name": data.name, "dataset_digest": data.digest, "model_id": model_id, "run_id": origin.run_id}
    client.log_batch(origin.run_id, metrics=[Metric(name, value, now, 0, **about) for name, value in card.own.items()])


def _tags(backend: Backend, card: Card, origin: Origin) -> dict[str, str]:
    page = backend.page(origin.experiment_id, origin.run_id)
    found = {**card.tags, **origin.tags, "evaluation_run": origin.run_id}
    return found | ({"mlflow_run_url": page} if page else {})


def _describe(backend: Backend, kind: Kind, version: "ModelVersion", card: Card, origin: Origin) -> None:
    """Write a version's tags and description, and remove an earlier evaluation's."""
    client, path = backend.client, f"#/experiments/{origin.experiment_id}/runs/{origin.run_id}"
    number, tags = str(version.version), _tags(backend, card, origin)
    for name in version.tags:
        if name not in tags and not name.startswith(_OF_PROMOTION):
            client.delete_model_version_tag(kind.name, number, name)
    for name, value in tags.items():
        if version.tags.get(name) != value:
            client.set_model_version_tag(kind.name, number, name, value)
    links = [f"- MLflow run with settings, per-query values and report: [{origin.run_id}]({path})"]
    if flow_run := origin.tags.get("flow_run"):
        url = origin.tags.get("flow_run_url")
        links.append(f"- Prefect flow run: [{flow_run}]({url})" if url else f"- Prefect flow run: {flow_run}")
    parts = [card.text, usage(kind, f"models:/{kind.name}/{number}"), "### Links\n\n" + "\n".join(links)]
    client.update_model_version(kind.name, number, description="\n\n".join(parts))


def _upload(backend: Backend, kind: Kind, model: Ref, folder: Path, card: Card, origin: Origin) -> str:
    """Copy the model into MLflow, because the store is cleaned up, and make a version of it.

    Ids are explicit, because mlflow's `log_model` acts on process-wide and thread-local state.
    """
    from mlflow import pyfunc
    from mlflow.entities import LoggedModelOutput, LoggedModelStatus
    from mlflow.models import Model

    from noisyir.models.transformer_tower import quietly

    # an environment without pip is no fault: requirements are listed below
    logging.getLogger("mlflow.utils.environment").setLevel(logging.ERROR)
    client, run_id = backend.client, origin.run_id
    params = client.get_run(run_id).data.params
    logged = client.create_logged_model(
        origin.experiment_id, kind.name, source_run_id=run_id, params=params, model_type=kind.noun
    )
    client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
    rows, settings = kind.example
    with tempfile.TemporaryDirectory() as temporary, quietly():  # the example is predicted, to learn the signature
        packed, hybrid = Path(temporary) / "model", Path(temporary) / HYBRID_FILE
        if card.hybrid:
            hybrid.write_text(json.dumps(card.hybrid, indent=1))
        pyfunc.save_model(
            packed,
            python_model=str(kind.code),
            artifacts={kind.folder: str(folder), **({hybrid.stem: str(hybrid)} if card.hybrid else {})},
            # versions as installed, without local labels such as +cpu
            pip_requirements=[f"{name}=={version_installed(name).split('+')[0]}" for name in kind.requirements],
            input_example=rows if settings is None else (rows, dict(settings)),
            mlflow_model=Model(
                artifact_path=logged.artifact_location,
                model_uuid=logged.model_id,
                run_id=run_id,
                model_id=logged.model_id,
                metadata={"artifact_digest": model.digest},
            ),
        )
        client.log_model_artifacts(logged.model_id, str(packed))
    client.finalize_logged_model(logged.model_id, LoggedModelStatus.READY)
    tags = _tags(backend, card, origin)
    made = client.create_model_version(kind.name, logged.model_uri, run_id, tags, model_id=logged.model_id)
    return str(made.version)
