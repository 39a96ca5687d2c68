"""Apply an audit: flagged pairs are dropped, or get the document that was found instead; the source stays as it is."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.tables import pair_ids
from noisyir.errors import ConfigError, DataError
from noisyir.noise.relabel import gets_replacement
from noisyir.noise.settings import RepairParams
from noisyir.verdicts.files import write_jsonl
from noisyir.verdicts.judgements import MOST_SUSPECT_FIRST, Pair
from noisyir.verdicts.pairs_to_clean import Fate, Fates, PairsToClean

Log: TypeAlias = list[tuple[Pair, Fate]]

_COLUMNS = ["query_id", "doc_id", "p_clean", "replacement", "reason"]


@dataclass(frozen=True)
class Applied:
    """The cleaned pairs, the log of what was changed, and how many of the source's pairs met which fate.

    unaudited: of those kept, pairs that the audit does not have: of dev and test, or left out when the data was read.
    """

    pairs: Path
    log: Path
    kept: int
    relabelled: int
    dropped: int
    unaudited: int

    def summary(self) -> str:
        """What was done, for a terminal."""
        unaudited = f" ({self.unaudited:,} of them not audited)" if self.unaudited else ""
        return (
            f"kept {self.kept:,} pairs{unaudited}, relabelled {self.relabelled:,}, dropped {self.dropped:,}\n"
            f"pairs  {self.pairs}\n"
            f"log    {self.log}"
        )


def apply_audit(
    audit: pa.Table, source: PairsToClean, folder: Path, *, relabel: float = RepairParams().relabel
) -> Applied:
    """Write the cleaned pairs, in the source's format, and a log of every drop and relabel into `folder`.

    relabel: share of the flagged, the surest first, that get their replacement, if they have one that is new to their
    query; the other flagged pairs are left out.
    DataError when a file is there already, or the audit is not of these pairs; nothing is written then.
    """
    pairs, log = folder / f"{source.stem}.cleaned{source.suffix}", folder / f"{source.stem}.changes.jsonl"
    _refuse_existing(pairs, log)
    fates = decide(audit, relabel=relabel)
    by_row, logged, total, unaudited = _by_row(audit, source, fates)
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".applying-") as name:
        half = Path(name)
        source.write(half / pairs.name, by_row)
        write_jsonl((_log_entry(pair, fate) for pair, fate in logged), half / log.name)
        _refuse_existing(pairs, log)
        (half / log.name).rename(log)
        (half / pairs.name).rename(pairs)
    relabelled = sum(fate.new_doc_id is not None for _, fate in logged)
    dropped = len(logged) - relabelled
    return Applied(pairs, log, total - len(logged), relabelled, dropped, unaudited)


def decide(audit: pa.Table, *, relabel: float) -> dict[Pair, Fate]:
    """What becomes of the pairs that do not stay as they are.

    Surest are those of the least p_clean, which is 0 where a person judged, then those of the highest score.
    """
    if not 0 <= relabel <= 1:
        raise ConfigError(f"relabel is the share of the flagged pairs that are relabelled: 0 to 1, not {relabel}")
    # The order of a query's rows says which of them gets what several have found.
    ordered = audit.select([*_COLUMNS, "score", "verdict"]).sort_by(MOST_SUSPECT_FIRST)
    wrong = np.flatnonzero(pc.equal(ordered["verdict"], "wrong").to_numpy())
    gets = gets_replacement(ordered, wrong.tolist(), relabel)
    fates: dict[Pair, Fate] = {}
    for number, row in zip(wrong.tolist(), ordered.take(wrong).to_pylist(), strict=True):
        new, reason = row["replacement"], row["reason"]
        if gets.get(number) is False:
            reason += f" Its replacement {new} is a document of the query already."
        fates[row["query_id"], row["doc_id"]] = Fate(new if gets.get(number) else None, row["p_clean"], reason)
    return fates


def _by_row(audit: pa.Table, source: PairsToClean, fates: Mapping[Pair, Fate]) -> tuple[Fates, Log, int, int]:
    """The source's rows that are changed, the log, the number of pairs, and how many the audit does not have."""
    unseen = dict.fromkeys(pair_ids(audit))
    audited = set(unseen)
    logged: Log = []
    changed: dict[int, list[Fate | None]] = {}
    total = unaudited = 0
    for number, of_number in groupby(source.pairs(), key=itemgetter(0)):  # a row may list several documents
        pairs = [pair for _, pair in of_number]
        of_row = [fates.get(pair) for pair in pairs]
        total += len(pairs)
        unaudited += sum(pair not in audited for pair in pairs)
        for pair, fate in zip(pairs, of_row, strict=True):
            unseen.pop(pair, None)
            logged += [(pair, fate)] if fate else []
        if any(of_row):
            changed[number] = of_row
    if unseen:
        query_id, doc_id = next(iter(unseen))
        raise DataError(
            f"{len(unseen):,} of the {len(audited):,} audited pairs are not in {source.name}, for example query "
            f"{query_id!r} with document {doc_id!r}: apply the audit to the pairs that it was made of"
        )
    return changed, logged, total, unaudited


def _log_entry(pair: Pair, fate: Fate) -> dict[str, Any]:
    return {
        "query_id": pair[0],
        "doc_id": pair[1],
        "action": "drop" if fate.new_doc_id is None else "relabel",
        "new_doc_id": fate.new_doc_id,
        "p_clean": round(fate.p_clean, 6),
        "reason": fate.reason,
    }


def _refuse_existing(*paths: Path) -> None:
    if existing := [str(path) for path in paths if path.exists()]:
        raise DataError(f"{' and '.join(existing)} exists already and is not overwritten: choose another folder")
