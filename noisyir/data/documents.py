"""What a corpus is brought up to date with: documents without queries, and a list of those that are gone."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from noisyir.data.columns import corpus_documents, open_corpus
from noisyir.data.records import Document
from noisyir.data.row_files import SUFFIXES, RowFile
from noisyir.data.settings import JoinCorpusParams
from noisyir.data.text_files import one_of, utf8_lines
from noisyir.errors import ConfigError, DataError

_IN_FOLDER = tuple(f"corpus{suffix}" for suffix in SUFFIXES)


@dataclass(frozen=True)
class NewDocuments:
    """A file of documents, a list of ids to remove, or both; nothing is read but on request."""

    documents: RowFile | None
    removals: Path | None

    @classmethod
    def open(cls, params: JoinCorpusParams) -> "NewDocuments":
        """ConfigError when there is neither; DataError when a file is missing, or of another format."""
        if params.path is None and params.remove is None:
            raise ConfigError("nothing to refresh with: give new documents, or --remove FILE with ids, or both")
        documents = None if params.path is None else open_corpus(_file(params.path), "data.path")
        removals = None if params.remove is None else Path(params.remove)
        if removals and not removals.is_file():
            raise DataError(f"{removals} is not a file: --remove names a text file with one document id a line")
        return cls(documents, removals)

    def records(self) -> Iterator[Document]:
        """The new documents, in the order of their file."""
        return corpus_documents(self.documents) if self.documents else iter(())

    def removed(self) -> Iterator[str]:
        """The ids to remove, as they stand in the list; blank lines are passed over."""
        return (line for _, line in utf8_lines(self.removals) if line.strip()) if self.removals else iter(())


def _file(path: str) -> str:
    """The file of documents that a path means: itself, or the one in a folder."""
    root = Path(path)
    if not root.is_dir():
        return path
    if found := one_of(root, _IN_FOLDER):
        return str(found)
    raise DataError(f"{root} holds no file of documents: one of {', '.join(_IN_FOLDER)}, or name the file itself")
