"""README's pictures, drawn from a real audit of an example: the page in a browser, the command on a terminal.

    make pictures                                            # needs chromium or google-chrome on PATH
    python -m bench.pictures --graph                         # a flow run's page, from a Prefect server of its own
    python -m bench.pictures --notebooks                     # runs the notebooks of examples/, and keeps their outputs

The pairs are docstrings of Python's library with their functions, a fifth of them given another pair's function.
"""

import argparse
import csv
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from examples.python_docs import python_docs

EXAMPLES = Path(__file__).parents[1] / "examples"
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FILE, WIDTH = "docstrings.csv", 80
_FONT = re.compile(r"@font-face \{\{.*?\}\}", re.DOTALL)  # of the network


def write_pairs(folder: Path, count: int) -> None:
    """The example as a file of one's own would be: two columns, and nothing that says which pairs are wrong."""
    pairs, _ = python_docs(count, wrong=0.2)
    with (folder / FILE).open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, ["query", "document"])
        rows.writeheader()
        rows.writerows(pairs)


def on_a_terminal(command: list[str], folder: Path) -> str:
    """A command's output, as it prints it on a terminal; its progress is left out.  CalledProcessError if it fails."""
    ours, its = pty.openpty()
    size = {"COLUMNS": str(WIDTH), "LINES": "50", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with subprocess.Popen(
        command, cwd=folder, stdin=its, stdout=its, stderr=subprocess.DEVNULL, env=os.environ | size
    ) as process:
        os.close(its)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(ours)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return b"".join(parts).decode().replace("\r\n", "\n")


def draw_terminal(typed: str, shown: str, to: Path) -> None:
    """A screen as SVG, without a font from the network."""
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True, color_system="truecolor")
        console.print(Text(f"$ {typed}", style="bold"))
        console.print(Text.from_ansi(shown.rstrip()))
        console.save_svg(str(to), title=typed, code_format=_FONT.sub("", CONSOLE_SVG_FORMAT), unique_id="noisyir")


def draw_page(page: str, to: Path, *more: str, size: str = "1280,900") -> None:
    """The page as a browser shows it."""
    if BROWSER is None:
        raise SystemExit("no chromium, chromium-browser or google-chrome on PATH: install one")
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --hide-scrollbars"
    with tempfile.TemporaryDirectory() as profile:
        where = [f"--user-data-dir={profile}", f"--screenshot={to}", f"--window-size={size}", *more, page]
        subprocess.run([BROWSER, *flags.split(), *where], check=True, capture_output=True, timeout=120)


def draw_graph(to: Path, port: int = 4793) -> None:
    """The page of a run of the tests' tiny collection, whose stages are at once boxes and arrows."""
    api = f"http://127.0.0.1:{port}/api"
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {"NOISYIR_HOME": home, "PREFECT_HOME": home, "PREFECT_UI_STATIC_DIRECTORY": f"{home}/ui"}
        os.environ |= {"PREFECT_API_URL": api, "PREFECT_SERVER_UI_API_URL": api, "TZ": "UTC"}
        from noisyir.flows import train_retriever
        from tests.tiny import SETTINGS, tiny_data

        prefect = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port)]
        with subprocess.Popen(prefect, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                wait_for(f"{api}/health")
                overrides = (*SETTINGS, "methods=[dpr]", "train.epochs=1", *tiny_data(Path(home) / "beir"))
                run = train_retriever("demo", overrides, return_state=True).state_details.flow_run_id
                time.sleep(5)  # task runs travel as events
                # drawn by WebGL, after some answers of the server
                drawn = ["--enable-unsafe-swiftshader", "--use-angle=swiftshader", "--virtual-time-budget=20000"]
                draw_page(f"{api.removesuffix('/api')}/runs/flow-run/{run}", to, *drawn, size="1280,500")
            finally:
                server.terminate()


def wait_for(address: str, seconds: float = 180.0) -> None:
    """Until somebody answers there."""
    end = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def run_notebooks() -> None:
    """Each notebook with the outputs of a run in a folder that is thrown away; progress and warnings are left out."""
    import nbformat
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as temporary:
        os.environ["NOISYIR_HOME"] = str(Path(temporary) / "home")
        folder = shutil.copytree(EXAMPLES, Path(temporary) / "examples")
        for path in sorted(EXAMPLES.glob("*.ipynb")):
            notebook = nbformat.read(path, as_version=4)
            place = {"metadata": {"path": str(folder)}}
            NotebookClient(notebook, timeout=1800, kernel_name="python3", resources=place).execute()
            for cell in notebook.cells:
                cell.metadata.pop("execution", None)
                if cell.cell_type == "code":
                    cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
            notebook.metadata.get("language_info", {}).pop("version", None)
            nbformat.write(notebook, path)
            print(path.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="pairs of the example")
    parser.add_argument("--to", type=Path, default=PICTURES, help="the folder of the pictures")
    parser.add_argument("--notebooks", action="store_true", help="run the notebooks instead")
    parser.add_argument("--graph", action="store_true", help="draw the page of a flow run instead")
    asked = parser.parse_args()
    if asked.notebooks:
        return run_notebooks()
    asked.to.mkdir(parents=True, exist_ok=True)
    if asked.graph:
        return draw_graph((asked.to / "run_graph.png").resolve())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_pairs(folder, asked.count)
        shown = on_a_terminal([str(Path(sys.executable).with_name("noisyir")), "audit", FILE], folder)
        shown = re.sub(r" \(took .*?\)", "", shown)  # of this machine, at this hour
        draw_terminal(f"noisyir audit {FILE}", shown, asked.to / "terminal.svg")
        draw_page((folder / "docstrings-audit" / "audit.html").as_uri(), (asked.to / "audit.png").resolve())
    print(asked.to)


if __name__ == "__main__":
    main()
