"""docs/reference/serve.md, typed: each of its calls answers on a live server."""

import contextlib
import io
import json
import re
import subprocess
from pathlib import Path

import pytest

DOCS = (Path(__file__).parents[3] / "docs" / "reference" / "serve.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```bash\n(.*?)```", DOCS, re.DOTALL)
PROGRAMS = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)


def here(text, served):
    return text.replace("http://127.0.0.1:8300", served).replace("demo", "world")


def test_there_is_an_example_of_each_protocol():
    whole = "\n".join([*COMMANDS, *PROGRAMS])
    assert all(word in whole for word in ("openai", "huggingface_hub", "cohere", "/rerank", "/info", "vector_stores"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_curl_answers(served, command):
    done = subprocess.run(["bash", "-c", f"{here(command, served).strip()} -sS --fail"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_prints_what_it_asks_for(served, program):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(here(program, served), "docs/reference/serve.md", "exec"), {})
    assert re.search(r"\d", said.getvalue()) and "[]" not in said.getvalue()


def test_its_limits_are_those_of_the_options():
    from noisyir.serving.options import ServeOptions

    said = dict(re.findall(r"`(--max-\w+)`.*?\| ([\d,]+)", DOCS))
    own = ServeOptions("m")
    assert said["--max-items"] == f"{own.items:,}" and said["--max-tokens"] == f"{own.tokens:,}"
    assert said["--max-bytes"] == f"{own.body >> 20}" and said["--max-waiting"] == f"{own.waiting:,}"
