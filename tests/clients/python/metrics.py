"""Parses metrics with Prometheus' own strict parser, and deployment files as YAML.

    metrics.py METRICS YAML...

An error of the parser ends the script: for example a duplicate series, a counter
without its suffix, or a histogram with inconsistent buckets.
"""

import sys

import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families


def main() -> None:
    metrics, *files = sys.argv[1:]
    with open(metrics, encoding="utf-8") as text:
        families = list(text_string_to_metric_families(text.read()))
    for family in families:
        if not family.documentation:
            raise SystemExit(f"{family.name} says nothing of itself")
        if family.type == "unknown":
            raise SystemExit(f"{family.name} has no type")
    if len(families) < 20:
        raise SystemExit(f"only {len(families)} families")
    for name in files:
        with open(name, encoding="utf-8") as text:
            if not isinstance(yaml.safe_load(text), dict):
                raise SystemExit(f"{name} is no mapping")
    samples = sum(len(family.samples) for family in families)
    print(f"ok {len(families)} families, {samples} samples, {len(files)} files")


main()
