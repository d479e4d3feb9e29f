"""The loopback servers that the tests use, kept running to look at: `python -m tests.services start`, `stop`.

Starts one process, which holds the servers, and keeps what it knows about it in `.services/`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.servers import OpenAIServer
from tests.stores import lite_server

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".services"
ENVIRONMENT = FOLDER / "env"
PROCESS = FOLDER / "pid"
LOG = FOLDER / "log"
# The `embed_dim` of a GraphConfig that says nothing of it.
DIMENSION = 512


def serve() -> None:
    """Hold the servers until told to end, with their addresses in a file that a shell can read."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with lite_server(FOLDER / "milvus") as milvus_uri, OpenAIServer(dim=DIMENSION) as openai:
        lines = (
            f"export MILVUS_URI={milvus_uri}\nexport OPENAI_BASE_URL={openai.base_url}\nexport OPENAI_API_KEY=test\n"
        )
        draft = ENVIRONMENT.with_suffix(".new")
        draft.write_text(lines)
        draft.rename(ENVIRONMENT)
        signal.pause()


def is_ours(pid: str) -> bool:
    """Whether the process holds our servers: the number may have been given to another one since."""
    answer = subprocess.run(["ps", "-o", "command=", "-p", pid], capture_output=True, text=True, check=False)
    return "tests.services serve" in answer.stdout


def stop() -> None:
    pid = PROCESS.read_text() if PROCESS.exists() else "0"
    if is_ours(pid):
        os.kill(int(pid), signal.SIGTERM)
        while is_ours(pid):
            time.sleep(0.1)
        print("The servers are stopped.")
    shutil.rmtree(FOLDER, ignore_errors=True)


def start() -> None:
    stop()
    FOLDER.mkdir()
    with LOG.open("wb") as log:
        command = [sys.executable, "-m", "tests.services", "serve"]
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    PROCESS.write_text(str(process.pid))
    while not ENVIRONMENT.exists():
        if process.poll() is not None:
            sys.exit(f"The servers did not start:\n{LOG.read_text()}")
        time.sleep(0.1)
    print(ENVIRONMENT.read_text() + "These lines are in .services/env; `make services-stop` ends the servers.")


def main() -> None:
    actions = {"start": start, "stop": stop, "serve": serve}
    parser = argparse.ArgumentParser(prog="python -m tests.services", description=__doc__)
    parser.add_argument("action", choices=list(actions))
    actions[parser.parse_args().action]()


if __name__ == "__main__":
    main()
