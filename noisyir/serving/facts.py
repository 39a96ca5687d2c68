"""Facts about a served model: its key, its training data, and the audit of that data."""

from collections.abc import Sequence
from typing import Any

from noisyir.app.lookup import experiment_that_kept
from noisyir.audits.stages.audit import AUDIT
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.provenance import lineage
from noisyir.engine.store import Store

_NO_STORE = "the model is a folder, and its data is not known here: serve it by its experiment or from the registry"
_NOT_AUDITED = "the pairs are not audited: noisyir audit"
_NOT_JUDGED = "no random sample of the pairs was judged: noisyir audit PAIRS --judge"


def facts_of(store: Store, model: Ref | None, index: Ref | None) -> dict[str, Any]:
    """Key, experiment, index, data digests and audit rate of a model."""
    if model is None:
        return {"training_data": None, "audit": {"rate": None, "reason": _NO_STORE}}
    behind = lineage(store, [model])
    made = store.builds.meta(model)
    audit = audit_of(store, behind)
    return {
        "key": model.key,
        "experiment": experiment_that_kept(store, model),
        "trained_by": made.stage,
        "created": made.created,
        "index": {"digest": index.digest, "key": index.key} if index else None,
        "training_data": _data(made, behind),
        "audit": rate_of(audit) | ({"key": audit.key, "created": audit.created} if audit else {}),
    }


def _data(made: Meta, behind: Sequence[Meta]) -> dict[str, Any]:
    """Digests of the training pairs and of their raw data."""
    read = dict(made.input_refs()).get("pairs")
    if read is None:
        return {"pairs": None, "source": _source(behind)}
    rows = next((meta.artifacts[read.artifact].rows for meta in behind if meta.build == read.build), None)
    return {"pairs": {"digest": read.digest, "rows": rows}, "source": _source(behind)}


def _source(behind: Sequence[Meta]) -> str | None:
    return next((meta.inputs.get("source") for meta in behind if meta.stage == "ingest"), None)


def audit_of(store: Store, behind: Sequence[Meta]) -> Meta | None:
    """The newest audit of the same data and corruption, preferably with judgements."""
    wanted = _source(behind), _put_in(behind)
    found = []
    for meta in reversed(store.builds.all()):
        if meta.stage == AUDIT.name:
            theirs = lineage(store, [meta.ref("audit")], gone=lambda _: None)
            if wanted[0] and (_source(theirs), _put_in(theirs)) == wanted:
                found.append(meta)
    return max(found, key=lambda meta: bool(meta.notes.get("judgements")), default=None)


def _put_in(behind: Sequence[Meta]) -> list[Any]:
    return [dict(meta.in_key) for meta in behind if meta.stage == "corrupt"]


def rate_of(audit: Meta | None) -> dict[str, Any]:
    """The rate of wrong pairs with its interval and counts; a null rate has a reason."""
    said = audit.notes.get("judgements") if audit else None
    judged = {"judged": said["judged"], "sampled": said["sampled"]} if said else {"judged": 0, "sampled": 0}
    if not said or not said["interval"]:
        return {"rate": None, "reason": _NOT_JUDGED if audit else _NOT_AUDITED, **judged}
    rate, low, high = said["interval"]
    return {"rate": rate, "low": low, "high": high, "confidence": said["confidence"], **judged}
