"""Apply an audit: pairs get weights, a vouched replacement, or are dropped; the source stays."""

from collections import Counter
from collections.abc import Container, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.audits.files import write_jsonl
from noisyir.audits.pairs_to_clean import Action, Fate, FileOfPairs, PairChanges, PairsToClean
from noisyir.base.artifact import BY_PAIR
from noisyir.base.errors import DataError
from noisyir.detection.judgements import Pair
from noisyir.detection.relabel import gets_replacement

Log: TypeAlias = list[tuple[Pair, Fate]]

HALF = 0.5  # below it a pair counts as changed; clean pairs have at least this weight
_LEAST_LIKELY_FIRST = [("p_clean", "ascending"), ("score", "descending"), *BY_PAIR]
_BY_MACHINE = {
    "query_id": "query_id",
    "doc_id": "doc_id",
    "machine_verdict": "verdict",
    "machine_p_clean": "p_clean",
    "machine_replacement": "replacement",
    "score": "score",
}


@dataclass(frozen=True)
class Applied:
    """The cleaned pairs, the log of changes, and the number of pairs by fate.

    Attributes:
        kept: Pairs not changed.
        doubted: Pairs that stay with less than half of their weight.
        unaudited: Kept pairs outside the audit: of dev and test, or left out when the data was read.
        negatives: The file's own negatives that were left out as relevant.
        not_right: Further pairs, which the file's own labels do not call right; they have weight 0.
        whole: Whether the copy has the file's columns and held-out rows; else it is of training pairs, as jsonl.
    """

    pairs: Path
    log: Path
    kept: int
    relabelled: int
    dropped: int
    doubted: int
    unaudited: int
    negatives: int = 0
    not_right: int = 0
    whole: bool = True

    def summary(self) -> str:
        """The changes, for a terminal."""
        unaudited = f" ({self.unaudited:,} of them not audited)" if self.unaudited else ""
        unaudited += f" and {self.not_right:,} not right by the file, with weight 0" if self.not_right else ""
        others = f"dropped {self.dropped:,}" if self.dropped or not self.doubted else ""
        negatives = f"left out {self.negatives:,} negatives as relevant" if self.negatives else ""
        doubted = f"gave {self.doubted:,} less than half of their weight" if self.doubted else ""
        return (
            f"kept {self.kept:,} pairs{unaudited}, relabelled {self.relabelled:,}, "
            f"{', '.join(filter(None, [others, doubted, negatives]))}\n"
            f"pairs  {self.pairs}\n"
            f"log    {self.log}"
        )


def apply_audit(
    audit: pa.Table,
    source: PairsToClean,
    folder: Path,
    *,
    drop: bool = False,
    relevant: Mapping[Pair, str] = MappingProxyType({}),
) -> Applied:
    """Write the cleaned pairs, in the source's format, and a log of every change into `folder`.

    With `drop`, flagged pairs without a replacement are left out; else all stay, with a column `weight`. `relevant` are
    the source's negatives to leave out, with reasons.

    Raises:
        DataError: If a file exists already, or the audit is not of these pairs; nothing is written then.
    """
    pairs, log = folder / f"{source.stem}.cleaned{source.suffix}", log_of(folder, source.stem)
    refuse_existing(pairs, log)
    wrong = set() if drop else source.not_right()
    changes, logged, rows = _by_row(source, decide(audit, drop=drop), wrong, weigh=not drop)
    changes = changes._replace(negatives=relevant.keys())
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix=".applying-") as name:
        half = Path(name)
        source.write(half / pairs.name, changes)
        fates = (_log_entry(pair, fate) for pair, fate in logged)
        write_jsonl([*fates, *negatives_log(relevant)], half / log.name)
        refuse_existing(pairs, log)
        (half / log.name).rename(log)
        (half / pairs.name).rename(pairs)
    met = Counter(fate.action for _, fate in logged)
    kept = rows["audited"] + rows["unaudited"] - len(logged)
    counts = kept, met["relabel"], met["drop"], met["weigh"], rows["unaudited"], len(relevant), rows["not_right"]
    return Applied(pairs, log, *counts, whole=isinstance(source, FileOfPairs))


def negatives_log(relevant: Mapping[Pair, str]) -> list[dict[str, str]]:
    """A line of the log for each negative that is left out."""
    return [
        {"query_id": query_id, "doc_id": doc_id, "action": "leave_out_negative", "reason": reason}
        for (query_id, doc_id), reason in relevant.items()
    ]


def decide(audit: pa.Table, *, drop: bool = False) -> dict[Pair, Fate]:
    """The fate of every audited pair.

    A pair with `relabel` set gets its replacement.  For the others the machine's chances decide first, and a pair
    without one stays whole.  Then people's verdicts decide about their own pairs: a clean one stays whole, a wrong one
    gets its replacement or goes.
    """
    by_machine = _by_machine(audit)
    fates, said = {}, []
    for row in audit.select(["query_id", "doc_id", "judged", "relabel", "replacement", "reason"]).to_pylist():
        pair = row["query_id"], row["doc_id"]
        fates[pair] = by_machine[pair]._replace(reason=f"{row['reason']}{by_machine[pair].reason}")
        if row["judged"] in ("clean", "wrong"):
            said.append((pair, row))
            fates[pair] = Fate("keep", None, 1.0, 1.0, row["reason"])
    given = {(pair[0], fate.new_doc_id) for pair, fate in fates.items() if fate.new_doc_id is not None}
    taken = {*fates, *given}
    for pair, row in said:
        if row["judged"] == "wrong":
            new = row["replacement"] if row["relabel"] else None
            fates[pair] = _judged_wrong(pair, new, taken, row["reason"])
            taken.add((pair[0], new))
    flagged = {pair: fate for pair, fate in fates.items() if fate.flagged and fate.new_doc_id is None} if drop else {}
    return fates | {pair: fate._replace(action="drop", weight=0.0) for pair, fate in flagged.items()}


def changed(audit: pa.Table, *, drop: bool = False) -> int:
    """The number of pairs that would be dropped, relabelled, or left less than half of their weight."""
    return sum(fate.action != "keep" for fate in decide(audit, drop=drop).values())


def _by_machine(audit: pa.Table) -> dict[Pair, Fate]:
    """The fate of every pair by the machine's chances; `reason` is a suffix of the audit's."""
    machine = audit.select([*_BY_MACHINE, "relabel", "judged"])
    machine = machine.rename_columns([_BY_MACHINE.get(name, name) for name in machine.column_names])
    # The order of a query's rows decides which of them gets a replacement that several have found.
    ordered = machine.sort_by(_LEAST_LIKELY_FIRST)
    unseen = pc.and_(ordered["relabel"], pc.is_null(ordered["judged"])).to_numpy()
    gets = gets_replacement(ordered, np.flatnonzero(unseen).tolist(), 1.0)
    fates = {}
    for number, row in enumerate(ordered.to_pylist()):
        new = row["replacement"] if gets.get(number) else None
        p_clean, flagged = 1.0 if row["p_clean"] is None else row["p_clean"], row["verdict"] in ("wrong", "suspect")
        flagged = flagged and row["p_clean"] is not None
        weight = 1.0 if new else p_clean if flagged else max(p_clean, HALF)
        action: Action = "relabel" if new else "weigh" if weight < HALF else "keep"
        aside = _taken(row["replacement"]) if gets.get(number) is False else ""
        fates[row["query_id"], row["doc_id"]] = Fate(action, new, weight, p_clean, aside, flagged=flagged)
    return fates


def _judged_wrong(pair: Pair, new: str | None, taken: set[tuple[str, str | None]], reason: str) -> Fate:
    if new is not None and (pair[0], new) not in taken:
        return Fate("relabel", new, 1.0, 0.0, reason, flagged=True)
    return Fate("weigh", None, 0.0, 0.0, reason if new is None else f"{reason}{_taken(new)}", flagged=True)


def _taken(doc_id: str) -> str:
    return f" Its replacement {doc_id} is a document of the query already."


def _by_row(
    source: PairsToClean, fates: Mapping[Pair, Fate], not_right: Container[Pair], *, weigh: bool
) -> tuple[PairChanges, Log, Counter[str]]:
    """Changes in the source's rows, the log, and the number of pairs inside and outside the audit, row by row."""
    unseen = dict.fromkeys(fates)
    logged: Log = []
    by_row: dict[int, list[Fate | None]] = {}
    weights: dict[int, list[float]] = {}
    counted: Counter[str] = Counter()
    for number, of_number in groupby(source.pairs(), key=itemgetter(0)):  # a row may list several documents
        pairs = [pair for _, pair in of_number]
        of_row = [fates.get(pair) for pair in pairs]
        for pair, fate in zip(pairs, of_row, strict=True):
            unseen.pop(pair, None)
            counted["audited" if fate else "not_right" if pair in not_right else "unaudited"] += 1
            logged += [(pair, fate)] if fate and fate.action != "keep" else []
        if any(fate and fate.action in ("relabel", "drop") for fate in of_row):
            by_row[number] = [fate if fate and fate.action in ("relabel", "drop") else None for fate in of_row]
        if weigh:
            given = (float(pair not in not_right) for pair in pairs)
            weights[number] = [round(fate.weight, 6) if fate else one for fate, one in zip(of_row, given, strict=True)]
    if unseen:
        query_id, doc_id = next(iter(unseen))
        raise DataError(
            "audits.pairs_not_in_source",
            n_unseen=len(unseen),
            n_audited=len(fates),
            source=source.name,
            query_id=query_id,
            doc_id=doc_id,
        )
    return PairChanges(by_row, weights if weigh else None), logged, counted


def _log_entry(pair: Pair, fate: Fate) -> dict[str, Any]:
    return {
        "query_id": pair[0],
        "doc_id": pair[1],
        "action": fate.action,
        "new_doc_id": fate.new_doc_id,
        "weight": round(fate.weight, 6),
        "p_clean": round(fate.p_clean, 6),
        "reason": fate.reason,
    }


def log_of(folder: Path, stem: str) -> Path:
    """The file that lists the changes."""
    return folder / f"{stem}.changes.jsonl"


def refuse_existing(*paths: Path) -> None:
    """Refuse to overwrite.

    Raises:
        DataError: If a file exists already.
    """
    if existing := [str(path) for path in paths if path.exists()]:
        raise DataError("audits.files_exist", existing=" and ".join(existing))
