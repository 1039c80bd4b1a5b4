"""Checks the manifests of examples/deployments/kubernetes beyond their schemas: pods are hardened and have time to
shut down, names fit together, and the probes ask paths of the admin listener.

usage: manifests.py CONFIG    writes the configuration of the ConfigMap to the file CONFIG
"""

import pathlib
import sys
import tomllib

import yaml

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/deployments/kubernetes"
# Between the end of the drain and the end of the process.
SECONDS_TO_CLOSE = 5


def objects():
    for file in sorted(FOLDER.glob("*/*.yaml")):
        yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))


def seconds(text):
    assert text.endswith("s") and text[:-1].isdigit(), text
    return int(text[:-1])


def check_pod(pod, drain):
    assert pod["automountServiceAccountToken"] is False
    context = pod["securityContext"]
    assert context["runAsNonRoot"] is True and context["runAsUser"] == 65532
    assert context["seccompProfile"]["type"] == "RuntimeDefault"
    assert context["fsGroupChangePolicy"] == "OnRootMismatch"
    (container,) = pod["containers"]
    for one in pod["initContainers"] + [container]:
        context = one["securityContext"]
        assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert one["image"] == container["image"]
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] >= pause + drain + SECONDS_TO_CLOSE
    probes = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    assert {name: (probe["path"], probe["port"]) for name, probe in probes.items()} == {
        "startupProbe": ("/readyz", "admin"),
        "readinessProbe": ("/readyz", "admin"),
        "livenessProbe": ("/healthz", "admin"),
    }
    return {port["name"] for port in container["ports"]}


def main():
    found = list(objects())
    (config,) = [entry["data"]["toolyard.toml"] for entry in found if entry["kind"] == "ConfigMap"]
    pathlib.Path(sys.argv[1]).write_text(config, encoding="utf-8")
    drain = seconds(tomllib.loads(config)["shutdown"]["drain"])
    controllers = [entry for entry in found if entry["kind"] in ("StatefulSet", "Deployment")]
    assert len(controllers) == 2
    for entry in controllers:
        ports = check_pod(entry["spec"]["template"]["spec"], drain)
        labels = entry["spec"]["template"]["metadata"]["labels"]
        for service in (entry for entry in found if entry["kind"] == "Service"):
            assert service["spec"]["selector"].items() <= labels.items()
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
    services = {entry["metadata"]["name"]: entry for entry in found if entry["kind"] == "Service"}
    (claim,) = [entry["spec"]["serviceName"] for entry in controllers if entry["kind"] == "StatefulSet"]
    assert services[claim]["spec"]["clusterIP"] == "None"
    (ingress,) = [entry["spec"] for entry in found if entry["kind"] == "Ingress"]
    for path in ingress["rules"][0]["http"]["paths"]:
        backend = path["backend"]["service"]
        names = {port["name"] for port in services[backend["name"]]["spec"]["ports"]}
        assert backend["port"]["name"] in names
    print(len(found), "objects")


main()
