"""Which reader serves which `data.dataset`."""

from noisyir.data.beir import BeirFolder
from noisyir.data.dpr import DprFolder
from noisyir.data.msmarco import MsmarcoFolder
from noisyir.data.pairs import PairsFile
from noisyir.data.pydocs import PythonDocs
from noisyir.data.records import Source
from noisyir.data.settings import IngestParams
from noisyir.data.squad import SquadFolder
from noisyir.engine.provenance import may_be_absent
from noisyir.errors import DataError


def open_source(params: IngestParams, workers: int | None = None) -> Source:
    """The raw data that the settings name; nothing is read yet.  DataError when a folder or file is missing."""
    if params.dataset == "pairs":
        return PairsFile.open(params.path, params.corpus, params.columns)
    if params.corpus is not None or params.columns:
        raise DataError(f"data.corpus and data.columns belong to dataset pairs, not to {params.dataset}: drop them")
    if params.dataset == "beir":
        return BeirFolder.open(params.path)
    if params.dataset == "dpr":
        return DprFolder.open(params.path, params.subset, params.positives)
    if params.dataset == "msmarco":
        return MsmarcoFolder.open(params.path)
    if params.dataset == "squad":
        return SquadFolder.open(params.path)
    if params.path is not None:
        raise DataError(
            "pydocs is mined from the installed Python and takes no data.path: drop it, or set data.dataset"
        )
    return PythonDocs(params.dev_queries, params.test_queries, params.max_documents, workers)


@may_be_absent
def source_digest(params: IngestParams) -> str:
    """A hash of the raw data's content, for the key of ingest.  DataError when a folder or file is missing."""
    return open_source(params).digest()
