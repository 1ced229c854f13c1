"""What a page of metrics has to agree with: itself, the one before, and what was asked."""

import re

LINE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Metrics:
    def __init__(self, text: str):
        self.samples: dict[tuple[str, tuple], float] = {}
        self.types: dict[str, str] = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                self.types[name] = kind
            elif not line.startswith("#"):
                name, labels, value = LINE.match(line).groups()
                self.samples[name, tuple(LABEL.findall(labels or ""))] = float(value)

    def of(self, name: str) -> float:
        """The sum over all labels."""
        return sum(value for (found, _), value in self.samples.items() if found == name)

    def with_labels(self, name: str, **wanted: str) -> float:
        return sum(value for (found, labels), value in self.samples.items() if found == name and wanted.items() <= dict(labels).items())


def contradictions(metrics: Metrics) -> list[str]:
    """Histograms whose buckets fall or do not end at their count; parts that are larger than the whole."""
    wrong = []
    last: dict[tuple, float] = {}
    for (name, labels), value in metrics.samples.items():
        if not name.endswith("_bucket"):
            continue
        family = name.removesuffix("_bucket")
        rest = tuple(label for label in labels if label[0] != "le")
        if value < last.get((family, rest), 0):
            wrong.append(f"{name}{labels} falls to {value}")
        last[family, rest] = value
        if ("le", "+Inf") in labels and metrics.samples[family + "_count", rest] != value:
            wrong.append(f"{name}{labels} is {value}, its count {metrics.samples[family + '_count', rest]}")
    if metrics.of("patchbay_kv_used_tokens") > metrics.of("patchbay_kv_tokens"):
        wrong.append("more of the KV cache is used than there is")
    if metrics.of("patchbay_cached_tokens_total") > metrics.of("patchbay_prompt_tokens_total"):
        wrong.append("more tokens of prompts were cached than there were")
    return wrong


def decreases(before: Metrics, after: Metrics) -> list[str]:
    """Counters that fell. Series of names that left may be missing."""
    counts = [name for name, kind in before.types.items() if kind == "counter"]
    return [f"{name}{labels} fell from {value} to {after.samples[name, labels]}"
            for (name, labels), value in before.samples.items()
            if name in counts and after.samples.get((name, labels), value) < value]


def miscounts(metrics: Metrics, by_adapter: dict[str, list[int]], by_route: dict[str, list[int]]) -> list[str]:
    """With nobody there any more. Both: how many answers callers got to the end, and how many they left; of those some
    may have been ready, and some may never have been read."""
    wrong = []
    for name in ("patchbay_answers_running", "patchbay_requests_waiting", "patchbay_kv_used_tokens", "vllm:num_requests_running", "llamacpp:requests_deferred"):
        if metrics.of(name) != 0:
            wrong.append(f"{name} is {metrics.of(name)} with nobody there")
    for name, (n_whole, n_cut) in by_adapter.items():
        found = {outcome: metrics.with_labels("patchbay_requests_total", adapter=name, outcome=outcome)
                 for outcome in ("done", "cancelled", "failed", "refused", "expired")}
        is_right = n_whole <= found["done"] and found["done"] + found["cancelled"] <= n_whole + n_cut
        if not is_right or found["failed"] + found["refused"] + found["expired"] > 0:
            wrong.append(f"requests that wear {name}: {n_whole} answered and {n_cut} left, counted {found}")
    for route, (n_whole, n_cut) in by_route.items():
        found = metrics.with_labels("patchbay_http_requests_total", route=route, code="200")
        if not n_whole <= found <= n_whole + n_cut:
            wrong.append(f"{route}: {n_whole} answered and {n_cut} left, counted {found}")
    return wrong
