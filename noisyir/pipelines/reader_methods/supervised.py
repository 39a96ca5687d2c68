"""Reading taught by gold passages: what distant labels are compared with."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from noisyir.pipelines.reader_methods import ReaderMethod
from noisyir.readers.settings import Passages


class Supervised(ReaderMethod):
    """Cross-entropy on the passages that the data itself calls relevant."""

    kind: Literal["supervised"] = "supervised"
    changes: ClassVar[Mapping[str, Any]] = {"objective": "supervised"}
    labels: ClassVar[Passages | None] = "given"
