"""Checks the dashboard and the alert rules of examples/deployments: every metric that they name is on the page of
metrics, every runbook exists, and a Prometheus that scrapes a running host answers every query.

usage: metrics.py PROMETHEUS_URL
"""

import json
import pathlib
import re
import sys
import urllib.parse
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples/deployments"
NAME = re.compile(r"\b(?:toolyard_|process_)[a-z_]+")
VARIABLES = {"$job": ".*", "$instance": ".*", "$tool": ".*", "$__rate_interval": "30s"}


def families():
    """The names of all series. Those of a histogram end with a suffix."""
    page = (ROOT / "host/docs/reference/metrics.md").read_text(encoding="utf-8")
    names = set()
    for name, kind in re.findall(r"^\| `([a-z_]+)` \| (\w+) \|", page, re.MULTILINE):
        names |= {name + end for end in ["_bucket", "_sum", "_count"]} if kind == "histogram" else {name}
    assert len(names) > 30, names
    return names


def panels(dashboard):
    for panel in dashboard["panels"]:
        yield panel
        yield from panel.get("panels", [])


def dashboard_queries():
    dashboard = json.loads((FOLDER / "grafana/toolyard.json").read_text(encoding="utf-8"))
    identifiers = [panel["id"] for panel in panels(dashboard)]
    assert len(set(identifiers)) == len(identifiers), "two panels have one id"
    source = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels(dashboard):
        assert panel["type"] == "row" or panel["datasource"] == source, panel["title"]
        for target in panel.get("targets", []):
            assert target["datasource"] == source, panel["title"]
            yield panel["title"], target["expr"]
    for annotation in dashboard["annotations"]["list"]:
        yield annotation["name"], annotation["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            # label_values(SERIES, LABEL)
            yield variable["name"], variable["definition"].removeprefix("label_values(").rsplit(",", 1)[0]


def alert_queries():
    rules = yaml.safe_load((FOLDER / "prometheus/alerts.yml").read_text(encoding="utf-8"))
    for rule in rules["groups"][0]["rules"]:
        runbook_exists(rule["alert"], rule["annotations"]["runbook"])
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        yield rule["alert"], rule["expr"]


def runbook_exists(alert, runbook):
    path, _, anchor = runbook.partition("#")
    text = (ROOT / path).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
    assert not anchor or anchor in anchors, f"{alert}: {path} has no heading {anchor}"


def ask(url, query):
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    form = urllib.parse.urlencode({"query": query}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query", form, timeout=10) as answer:
        found = json.load(answer)
    assert found["status"] == "success", found
    return found["data"]["result"]


def main():
    known = families()
    shown = list(dashboard_queries())
    alerts = list(alert_queries())
    for title, query in shown + alerts:
        unknown = set(NAME.findall(query)) - known
        assert not unknown, f"{title}: there is no metric {unknown}"
    for title, query in shown:
        # A comparison leaves out what is zero.
        found = ask(sys.argv[1], query)
        assert found or " > 0" in query, f"{title}: Prometheus has no series for {query}"
    for title, query in alerts:
        ask(sys.argv[1], query)
    print(f"{len(shown)} queries of the dashboard, {len(alerts)} alerts")


main()
