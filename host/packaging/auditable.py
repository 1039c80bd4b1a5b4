"""Writes the section `.dep-v0` that `cargo audit bin` reads, from the CycloneDX list of the program's packages.

    auditable.py toolyard.cdx.json >SECTION

cargo-auditable makes the same section, but as a wrapper of rustc: Cargo then gives the functions of this
repository other symbols, and the recorded profile of calls does not find them.
The format: JSON, compressed by zlib; dependencies are places in the list.
"""

import json
import sys
import zlib

with open(sys.argv[1], encoding="utf-8") as opened:
    sbom = json.load(opened)

root = sbom["metadata"]["component"]
components = sorted([root, *sbom["components"]], key=lambda package: (package["name"], package["version"]))
places = {package["bom-ref"]: place for place, package in enumerate(components)}
needs = {entry["ref"]: entry.get("dependsOn", []) for entry in sbom["dependencies"]}


def entry(package):
    ref = package["bom-ref"]
    found = {
        "name": package["name"],
        "version": package["version"],
        "source": "crates.io" if ref.startswith("registry+") else "local",
    }
    dependencies = sorted(places[needed] for needed in needs.get(ref, []))
    if dependencies:
        found["dependencies"] = dependencies
    if package is root:
        found["root"] = True
    return found


packages = {"packages": [entry(package) for package in components]}
sys.stdout.buffer.write(zlib.compress(json.dumps(packages, separators=(",", ":")).encode(), 9))
