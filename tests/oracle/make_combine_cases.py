#!/usr/bin/env python3
"""Writes tests/data/combine_cases.json: what PEFT's add_weighted_adapter makes of three small adapters.

    python make_combine_cases.py [OUT]

DARE's masks are drawn here and given to PEFT in place of its own, so that the same ones can be given to the program.
Needs torch and peft.
"""

import json
import sys
from pathlib import Path
from unittest import mock

import torch
from peft import LoraConfig, get_peft_model

OUT = Path(__file__).resolve().parents[1] / "data" / "combine_cases.json"
N_IN, N_OUT, N_RANK = 6, 5, 3
ALPHAS = [6.0, 1.5, 4.0]
WEIGHTS = [1.0, -0.7, 0.4]
CASES = [("linear", None), ("ties", 1.0), ("ties", 0.5), ("ties", 0.2), ("dare_linear", 0.6), ("dare_linear", 1.0),
         ("dare_ties", 0.4)]


class Tiny(torch.nn.Module):
    """One linear layer."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(N_IN, N_OUT, bias=False)

    def forward(self, x):
        return self.layer(x)


def make_model():
    torch.manual_seed(3)
    config = [LoraConfig(r=N_RANK, lora_alpha=alpha, target_modules=["layer"]) for alpha in ALPHAS]
    model = get_peft_model(Tiny(), config[0], adapter_name="a0")
    for i, one in enumerate(config[1:], 1):
        model.add_adapter(f"a{i}", one)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data.normal_()
    return model


def factors(model, name):
    layer = model.base_model.model.layer
    return {"a": layer.lora_A[name].weight.tolist(), "b": layer.lora_B[name].weight.tolist()}


def make_case(model, names, rule, density):
    masks = []

    def bernoulli(probabilities):
        masks.append(torch.rand_like(probabilities) < probabilities)
        return masks[-1].to(probabilities.dtype)

    torch.manual_seed(len(rule))
    with mock.patch("torch.bernoulli", bernoulli):
        model.add_weighted_adapter(names, WEIGHTS, "all", combination_type=rule, density=density)
    layer = model.base_model.model.layer
    case = {"rule": rule, "density": 1.0 if density is None else density, "scale": layer.scaling["all"],
            "masks": [mask.flatten().int().tolist() for mask in masks], **factors(model, "all")}
    model.delete_adapter("all")
    return case


def main():
    model = make_model()
    names = [f"a{i}" for i in range(len(ALPHAS))]
    adapters = [{"scale": alpha / N_RANK, "weight": weight, **factors(model, name)}
                for alpha, weight, name in zip(ALPHAS, WEIGHTS, names, strict=True)]
    cases = [make_case(model, names, rule, density) for rule, density in CASES]
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    out.write_text(json.dumps({"adapters": adapters, "cases": cases}) + "\n")


if __name__ == "__main__":
    main()
