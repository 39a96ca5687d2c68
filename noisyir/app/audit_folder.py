"""The folder of an audit's files: their names, and a check that no judgement is lost."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.audits.files import write_jsonl
from noisyir.base.errors import ConfigError, StoreError
from noisyir.detection.judgements import Pair, pairs_with_verdicts
from noisyir.methods.plans.experiment import Experiment
from noisyir.retrieval.trec import write_qrels

PAGE, CSV, TABLE = "audit.html", "audit.csv", "audit.parquet"
DATA = b"noisyir.data"  # the entry of the table's metadata that names the data
MENDED, LOG = "mended.qrels", "mended.jsonl"  # labels of dev or test as people correct them, and the changes
KEPT = "kept.jsonl"  # written if a guarantee is wanted


def files_of(exp: Experiment) -> list[str]:
    """Names of files that an audit may write."""
    sample = ["sample.csv"] if exp.audit and exp.audit.sample else []
    return [PAGE, CSV, TABLE, *sample, "negatives.csv", "extra_positives.jsonl", MENDED, LOG, KEPT]


def refuse_to_overwrite(exp: Experiment, folder: Path) -> None:
    """Check that writing an audit into the folder loses no judgements.

    Raises:
        ConfigError: If the folder is a file, or judgements or the audit of other data would be overwritten.
        StoreError: If nothing can be written there.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ConfigError("app.folder_is_file", folder=folder)
    with StoreError.wrapping("app.cannot_write_folder", folder=folder):
        with TemporaryFile(dir=there):
            pass
    if (other := _data_of(folder)) not in (None, data_name(exp)):
        raise ConfigError("app.folder_of_other_data", folder=folder, other=other)
    written = [(folder / name).resolve() for name in files_of(exp)]
    for given in exp.audit.judgement_files if exp.audit else ():
        if Path(given).resolve() in written:
            raise ConfigError("app.judgements_overwritten", given=given)
    sample = folder / "sample.csv"
    if exp.audit and exp.audit.sample and sample.is_file() and pairs_with_verdicts(sample):
        raise ConfigError("app.sample_overwritten", sample=sample, quote=shlex.quote(str(sample)))


def write_mended(labels: Mapping[str, Mapping[str, int]], relevant: Mapping[Pair, bool], folder: Path) -> str:
    """Write labels without the wrong ones and with the missing ones, and a log; return a sentence.

    Args:
        labels: Grades by query and document; from 1 on they mean relevant.
        relevant: People's verdicts on documents of these queries.
    """
    mended, log = {query: dict(docs) for query, docs in labels.items()}, []
    for (query, doc), now in relevant.items():
        was = mended[query].get(doc)
        if was is None or (was >= 1) != now:
            mended[query][doc] = int(now)
            log.append({"query_id": query, "doc_id": doc, "was": was, "is": int(now)})
    write_qrels(mended, folder / MENDED)
    write_jsonl(log, folder / LOG)
    return f"mended      {folder / MENDED}: {len(log):,} labels new or changed, each in {folder / LOG}"


def data_name(exp: Experiment) -> str:
    """The name of the audited file or folder, without its place; of other data its kind."""
    places = (getattr(exp.data, name) for name in exp.data.locations())
    return next((Path(place).name for place in places if place), exp.data.kind)


def read_written(folder: Path, columns: list[str]) -> pa.Table:
    """Columns of the table that an audit wrote into a folder.

    Raises:
        StoreError: If it is not there.
    """
    with StoreError.wrapping("app.no_written_audit", OSError, pa.ArrowException, folder=folder):
        return pq.read_table(folder / TABLE, columns=columns)


def _data_of(folder: Path) -> str | None:
    """The name of the data of the audit in a folder, if there is one that tells."""
    try:
        with (folder / TABLE).open("rb") as file:
            found = (pq.read_schema(file).metadata or {}).get(DATA)
    except (OSError, pa.ArrowException):
        return None
    return found.decode() if found else None
