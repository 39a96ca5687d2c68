"""Bringing a model or a data set into the store as a Prefect flow: what `noisyir fetch` does."""

from prefect import flow
from prefect.artifacts import create_table_artifact
from prefect.logging import get_run_logger

from noisyir.app.fetching import fetch as bring
from noisyir.app.fetching import source_of
from noisyir.engine.hub import Kind
from noisyir.flows.experiment import writable_store


@flow(name="fetch", flow_run_name="fetch {name_or_url}", persist_result=False)
def fetch(
    name_or_url: str,
    name: str | None = None,
    revision: str | None = None,
    kind: Kind = "model",
    again: bool = False,
    store: str | None = None,
) -> None:
    """Bring a model or a data set into the store, where every worker finds it under its name.

    Args:
        name_or_url: a name of the Hugging Face Hub, a URL such as s3://bucket/folder, or a path that the worker sees.
        name: what settings call it; empty: as given.
        revision: of the Hub: branch, tag or commit; empty: the newest.
        kind: of the Hub: a model or a data set.
        again: fetch it anew though the store has it.
        store: folder or fsspec URL of the artifacts; empty: the one that this worker's NOISYIR_STORE or NOISYIR_HOME
            names.

    """
    artifacts = writable_store(store)
    found = artifacts.fetched.find(name or name_or_url)
    if found is None or again:
        log, source = get_run_logger(), source_of(name_or_url, revision, kind)
        log.info("%s: %d bytes in %d files", name_or_url, sum(source.sizes.values()), len(source.sizes))
        found = bring(
            artifacts, source, name_or_url, name,
            lambda file, done, total: log.info("%s is in: %d of %d bytes", file, done, total),
        )  # fmt: skip
    create_table_artifact(
        key="fetched",
        table=[{"file": name, "bytes": size, "sha256": digest} for name, (size, digest) in found.files.items()],
        description=f"{found.name} from {found.source}, revision {found.revision}: {found.size:,} bytes",
    )
