#!/usr/bin/env python3
"""Compares the names of family_conversion.py with those of gguf, llama.cpp's own package.

    python check_names.py

Needs gguf and numpy. Prints what differs and ends with 1 if anything does.
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np

from family_conversion import ARCH, converted

FAMILIES = json.loads((Path(__file__).resolve().parents[1] / "data" / "oracle" / "families.json").read_text())
ARCHITECTURES = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}
# What llama.cpp's converters split or stack before they look names up.
HANDLED_BEFORE = ("experts.gate_up_proj", "experts.down_proj", "shared_mlp.input_linear.weight", "kv_b_proj.weight",
                  # Names of transformers 5; checkpoints have router.layer.
                  "block_sparse_moe.router.weight")


def differences(config, parameters):
    names = gguf.get_tensor_name_map(ARCHITECTURES[ARCH[config["model_type"]]], config["num_hidden_layers"])
    for name, shape in parameters.items():
        if name.endswith(HANDLED_BEFORE):
            continue
        ours = list(converted(name, np.zeros(shape), config))
        theirs = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if ours != [theirs]:
            yield f"{config['model_type']}: {name} is {ours[0]} here and {theirs} there"


def main():
    found = [line for record in FAMILIES.values() for line in differences(record["config"], record["parameters"])]
    print("\n".join(found) or f"{len(FAMILIES)} families: all names agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
