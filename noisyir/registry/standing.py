"""Standing of versions in the registry, without MLflow, which takes seconds to load: by its file, or its server.

Where neither knows the answer in the shape that is expected here, as after a change in MLflow, MLflow itself is asked.
"""

import base64
import json
import os
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from noisyir.base.errors import ConfigError
from noisyir.evaluation.promotion import Numbers
from noisyir.registry.backend import check_database, connect, database_of
from noisyir.registry.kinds import kinds
from noisyir.registry.registry import CHALLENGER, CHAMPION, aliased

_SECONDS = 3.0
Found = tuple[str, dict[str, str]]
Ask = Callable[[str, str], Found | None]
"""The number and the tags of the version that a model's alias names; None where there is none."""


def standing(home: Path) -> list[dict[str, Any]]:
    """Versions that aliases of the registered models name: name, alias, version, experiment, source of promotion.

    ConfigError where the registry is damaged, or does not answer.
    """
    named = os.environ.get("MLFLOW_REGISTRY_URI") or os.environ.get("MLFLOW_TRACKING_URI")
    uri = named or f"sqlite:///{home / 'mlflow.db'}"
    try:
        if database := database_of(uri):
            check_database(database)
            with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as opened:
                return _standing(lambda name, alias: _in_file(opened, name, alias))
        if uri.startswith(("http://", "https://")):
            return _standing(lambda name, alias: _on_server(uri, name, alias))
    except (sqlite3.Error, ValueError, KeyError, TypeError):  # of another shape
        pass
    except URLError as error:
        raise ConfigError("registry.mlflow_not_answer", uri=uri, reason=error.reason) from error
    backend = connect(home)

    def by_client(name: str, alias: str) -> Found | None:
        version = aliased(backend, name, alias)
        return (version.version, dict(version.tags)) if version else None

    return _standing(by_client)


def _standing(ask: Ask) -> list[dict[str, Any]]:
    found = []
    for kind, alias in product(kinds(), (CHAMPION, CHALLENGER)):
        if version := ask(kind.name, alias):
            number, tags = version
            measure = kind.measure.replace("@", "_")
            measures = {name: float(value) for name, value in tags.items() if name.startswith(measure)}
            facts = {"version": number, "experiment": tags.get("experiment", "")}
            found.append({"name": kind.name, "alias": alias, **facts, "measures": measures})
    return found


def _in_file(opened: sqlite3.Connection, name: str, alias: str) -> Found | None:
    said = opened.execute("SELECT version FROM registered_model_aliases WHERE name = ? AND alias = ?", (name, alias))
    if (row := said.fetchone()) is None:
        return None
    tags = opened.execute("SELECT key, value FROM model_version_tags WHERE name = ? AND version = ?", (name, row[0]))
    return str(row[0]), dict(tags.fetchall())


def _on_server(uri: str, name: str, alias: str) -> Found | None:
    asked = Request(
        f"{uri.rstrip('/')}/api/2.0/mlflow/registered-models/alias?{urlencode({'name': name, 'alias': alias})}"
    )
    user, password = (os.environ.get(f"MLFLOW_TRACKING_{part}", "") for part in ("USERNAME", "PASSWORD"))
    if user:
        asked.add_header("Authorization", f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}")
    try:
        with urlopen(asked, timeout=_SECONDS) as answer:
            version = json.load(answer)["model_version"]
    except HTTPError as error:
        said = json.loads(error.read()).get("error_code")
        if said in ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST"):  # no such alias, no such model
            return None
        raise ValueError(f"{uri} says {said}") from error
    return str(version["version"]), {tag["key"]: tag["value"] for tag in version.get("tags", [])}


Verdict = Literal["promoted", "refused", "already champion", "rolled back"]


@dataclass(frozen=True)
class Decision:
    """A decision on a registered model, with all that it rests on: a line of the log.

    version: what it is about; champion_before, champion_after: version numbers, None where there is no champion.
    versions: artifact key, digest, evaluation digest, experiment and seed of each version that was looked at.
    comparison: what makes it the same when it is asked for again; yard: what it was measured by.
    """

    model: str
    version: str
    verdict: Verdict
    reasons: tuple[str, ...]
    champion_before: str | None
    champion_after: str | None
    when: str
    who: str
    flow_run: str | None
    measure: str | None = None
    split: str | None = None
    numbers: Numbers | None = None
    thresholds: Mapping[str, Any] | None = None
    versions: Mapping[str, Mapping[str, str]] | None = None
    comparison: str | None = None
    yard: str | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """A line of the log."""
        numbers = record["numbers"]
        return cls(**{**record, "reasons": tuple(record["reasons"]), "numbers": numbers and Numbers(**numbers)})

    @property
    def summary(self) -> str:
        """The decision in one line."""
        found = self.numbers
        parts = [f"{self.model} v{self.version} {self.verdict}"]
        if found is not None:
            parts[0] += f": {self.measure} ({self.split}) {found.mean:.4f} over {found.queries:,} queries"
            if found.gain is not None:
                interval = f"[{found.low:+.4f}, {found.high:+.4f}] over {found.seeds} seed{'s'[: found.seeds > 1]}"
                parts.append(
                    f"champion v{self.champion_before} {found.champion_mean:.4f}, gain {found.gain:+.4f} {interval}"
                )
        return "; ".join([*parts, *self.reasons])

    def page(self) -> str:
        """The decision in Markdown, with all numbers and thresholds."""
        found = self.numbers
        rows: dict[str, Any] = {"who": self.who, "when": self.when, "flow run": self.flow_run}
        rows |= {"champion before": self.champion_before, "champion after": self.champion_after}
        if found is not None:
            rows |= {"measure": f"{self.measure} ({self.split})", **vars(found)}
        rows |= {f"threshold: {name}": value for name, value in (self.thresholds or {}).items()}
        cells = [f"| {name} | {_cell(value)} |" for name, value in rows.items() if value is not None]
        reasons = [f"- {reason}" for reason in self.reasons]
        return "\n".join(
            [f"## {self.model} v{self.version}: {self.verdict}", "", *reasons, "", "| | |", "|---|---|", *cells]
        )


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
