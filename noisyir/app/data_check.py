"""`noisyir check`: data set faults that need no judging, as text, as JSON and as a gate."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Any

from noisyir.app.data_import import opened, settings_for
from noisyir.base.errors import ConfigError
from noisyir.base.pages.cells import percent
from noisyir.data.checking import FAULTS, CheckedRecords, FoundFault, check
from noisyir.data.formats import Format
from noisyir.data.formats.pairs import PairsFile
from noisyir.data.leniency import lenient
from noisyir.data.records import Source
from noisyir.engine.remote.fetched import located

_WIDTH, _NAME = 80, 22  # columns of a line and of its name
_GROUPS = list(dict.fromkeys(name.partition(".")[0] for name in FAULTS))


@dataclass(frozen=True)
class DataCheck:
    """Findings on a data set."""

    data: str
    format: str
    sizes: Mapping[str, int]
    splits: Mapping[str, int]
    findings: tuple[FoundFault, ...]
    columns: Mapping[Any, str] = field(default_factory=dict)
    labels: str = ""
    unread: Sequence[str] = ()

    def of(self, *names: str) -> tuple[FoundFault, ...]:
        """Return the findings with these names or groups: `leaks` or `leaks.queries`.

        Raises:
            ConfigError: If a name is unknown.
        """
        if unknown := [name for name in names if name not in FAULTS and name not in _GROUPS]:
            groups, named = ", ".join(_GROUPS), ", ".join(name for name in FAULTS if name not in _GROUPS)
            raise ConfigError("app.unknown_fault", unknown=unknown[0], groups=groups, faults=named)
        return tuple(found for found in self.findings if {found.name, found.name.partition(".")[0]} & {*names})

    def for_machines(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        findings = [
            asdict(found)
            | {"share": found.count / max(found.of, 1), "examples": [one._asdict() for one in found.examples]}
            for found in self.findings
        ]
        about = {"data": self.data, "format": self.format, **self.sizes, "splits": dict(self.splits)}
        about |= {"columns": dict(self.columns), "labels": self.labels, "not_read": list(self.unread)}
        return {**about, "findings": findings, "looked_for": list(FAULTS)}

    def __str__(self) -> str:
        """The report for a terminal, in 80 columns."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        sizes = ", ".join(f"{count:,} {kind}" for kind, count in self.sizes.items())
        splits = ", ".join(f"{count:,} {split}" for split, count in self.splits.items())
        yield from _told("read", f"{self.data} ({self.format}): {sizes}{f'; judgements: {splits}' if splits else ''}")
        columns = ", ".join(f"{name} is {what}" for what, name in self.columns.items())
        for name, said in {"columns": columns, "labels": self.labels, "not read": ", ".join(self.unread)}.items():
            if said:
                yield from _told(name, said)
        for found in self.findings:
            yield ""
            share = found.count / max(found.of, 1)
            part = percent(share, 1) if share >= 0.0005 else "<0.1 %"
            yield from _told(found.name, f"{found.count:,} of {found.of:,} ({part}): {found.what}")
            for where, said in found.examples:
                yield from _told("", f"- {where}: {said}")
            yield from _told("", found.advice)
        yield ""
        yield from _told("nothing found", f"by {len(FAULTS) - len(self.findings)} checks")


def _told(name: str, said: str) -> list[str]:
    """Wrap text into lines, with the name before the first one."""
    lines = wrap(said, _WIDTH - _NAME, break_on_hyphens=False)
    return [f"{name if not number else '':<{_NAME}}{line}" for number, line in enumerate(lines)]


def refuse_unknown(names: Sequence[str]) -> None:
    """Check finding names before any data is read."""
    DataCheck("", "", {}, {}, ()).of(*names)


def check_data(
    source: str,
    *,
    kind: str | None = None,
    columns: str | None = None,
    beside: Mapping[str, str | None] | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> DataCheck:
    """Check data of any format for faults without writing anything; arguments as for `import_data`."""
    settings = settings_for(source, kind=kind, columns=columns, beside=beside or {})
    return _checked(source, settings["kind"], settings.get("path"), opened(settings), progress)


def check_format(data: Format) -> DataCheck:
    """Check the data that an experiment reads, as `check_data`."""
    with lenient():
        source = located(data).open()
    path = getattr(data, "path", None)
    return _checked(path or data.kind, data.kind, path, source, lambda _: None)


def _checked(name: str, kind: str, place: str | None, source: Source, progress: Callable[[int], None]) -> DataCheck:
    path = Path(place or "")
    root = path if path.is_dir() else path.parent
    data = CheckedRecords.read(source, f"{root}/", progress)
    names = ("documents", "queries", "judgements", "negatives")
    sizes = {name: len(getattr(data, name)) for name in names}
    splits = Counter(str(one.split) for one in data.judgements)
    labels = getattr(getattr(source, "labels", None), "said", "")
    columns: Mapping[Any, str] = source.columns if isinstance(source, PairsFile) else {}
    return DataCheck(name, kind, sizes, splits, tuple(check(data)), columns, labels, getattr(source, "unread", ()))
