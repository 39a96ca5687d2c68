"""`noisyir doctor`: what this machine can run, and what to install for the rest."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from noisyir.base.errors import NoisyirError, install_hint
from noisyir.front.commands import Json, StoreUrl, file_size, open_store, print_json

if TYPE_CHECKING:
    from noisyir.engine.store import Store


class Finding(NamedTuple):
    """One line of the examination; a `needed` item that is not `ok` prevents `noisyir run demo`."""

    name: str
    ok: bool
    needed: bool
    says: str


def run(as_json: Json = False, store: StoreUrl = None) -> int:
    """List what this machine can run, and name missing parts.

    Exit code 1 when `noisyir run demo` would not work.

    example: noisyir doctor
    """
    from rich.markup import escape
    from rich.table import Table

    from noisyir.app.console import stdout_console

    python = Finding("python", True, True, platform.python_version())
    cpu = Finding("cpu", True, True, f"{os.cpu_count()} cores, {platform.machine()}")
    findings = [python, cpu, *_packages(), _java(), _gpu(), _store(open_store(store))]
    if as_json:
        print_json({"findings": [finding._asdict() for finding in findings]})
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        for finding in findings:
            mark = "[green]ok[/]" if finding.ok else "[red]missing[/]" if finding.needed else "[yellow]none[/]"
            table.add_row(mark, finding.name, escape(finding.says))
        stdout_console().print(table)
    return int(any(finding.needed and not finding.ok for finding in findings))


def _packages() -> Iterator[Finding]:
    for modules, needed, extra, gives in [
        (("torch", "transformers", "sentence_transformers", "safetensors"), True, "train", "models and training"),
        (("faiss",), True, "faiss", "dense index"),
        (("pyserini", "jnius"), False, "bm25", "BM25 by Lucene"),
        (("bm25s",), False, "bm25", "BM25 without Java (bm25_index.engine=bm25s)"),
        (("mlflow",), False, "orchestrate", "tracking and model registry"),
        (("prefect",), False, "orchestrate", "--engine prefect, schedules"),
        (("s3fs",), False, "s3", "stores on S3"),
    ]:
        missing = [name for name in modules if find_spec(name) is None]
        says = f"{gives}: {install_hint(extra)}" if missing else gives
        yield Finding(", ".join(missing or modules), not missing, needed, says)


def _java() -> Finding:
    from noisyir.retrieval.java import find_java

    try:
        java = find_java()
    except NoisyirError as error:
        return Finding("java", False, False, str(error))
    return Finding("java", True, False, f"Java {java.version} in {java.home}")


def _gpu() -> Finding:
    if find_spec("torch") is None:
        return Finding("gpu", False, False, "torch is not installed")
    import torch

    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return Finding("gpu", bool(names), False, ", ".join(names) or "no CUDA device: everything runs on the CPU")


def _store(store: Store) -> Finding:
    try:
        store.check_writable()
    except NoisyirError as error:
        return Finding("store", False, True, str(error))

    free = f", {file_size(shutil.disk_usage(store.root).free)} free" if store.is_local else ""
    return Finding("store", True, True, f"{store.url}{free}")
