"""`noisyir.check`: data faults that need no judging, for rows from Python."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from noisyir.app.data_check import DataCheck, check_data
from noisyir.front.api.given import Rows, as_file, documents_file


def check(pairs: Rows, corpus: Rows | None = None, *, columns: Mapping[str, str | None] | None = None) -> DataCheck:
    """Find unknown ids, repeated rows, empty or truncated texts, leaks, and other faults.

    `found.findings` has all of them, `found.of("leaks", "ids")` a selection; `print(found)` shows the report.

    Args:
        pairs: As for `noisyir.audit`; also a data set's folder, `hf://ORG/NAME` or `irds:ID`.
        corpus: As for `noisyir.audit`.
        columns: As for `noisyir.audit`.

    Raises:
        DataError: If the data cannot be read.

    Examples:
        >>> found = noisyir.check([{"query": "who sat?", "document": "a cat", "split": "train"},
        ...                        {"query": "Who sat?", "document": "a black cat", "split": "test"}])
        >>> [(one.name, one.count, one.of) for one in found.of("leaks")]
        [('leaks.queries', 1, 1)]
    """
    mapped = None if columns is None else ",".join(f"{what}={name or ''}" for what, name in columns.items())
    with TemporaryDirectory() as home:
        source, beside = as_file(pairs, Path(home), "pairs"), documents_file(corpus, Path(home))
        found = check_data(source, columns=mapped, beside={"corpus": beside})
    return found if isinstance(pairs, str | os.PathLike) else replace(found, data="pairs")
