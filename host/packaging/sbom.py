"""Prints a CycloneDX list reduced to the packages of `cargo tree` on standard input.

    sbom.py FILE ROOT

References name the packages of this repository by their folder; ROOT is removed from them.
"""

import json
import sys

file, root = sys.argv[1:]
with open(file, encoding="utf-8") as opened:
    sbom = json.loads(opened.read().replace(f"path+file://{root}/", "path+file:///toolyard/"))

# A line is `NAME vVERSION`, and may go on.
used = {tuple(line.split()[:2]) for line in sys.stdin if line.strip()}
components = [c for c in sbom["components"] if (c["name"], "v" + c["version"]) in used]
refs = {c["bom-ref"] for c in components} | {sbom["metadata"]["component"]["bom-ref"]}
missing = used - {(c["name"], "v" + c["version"]) for c in [*components, sbom["metadata"]["component"]]}
if missing:
    sys.exit(f"sbom.py: {file} lacks packages of the tree: {sorted(missing)}")

sbom["components"] = components
sbom["dependencies"] = [
    {**entry, "dependsOn": [ref for ref in entry.get("dependsOn", []) if ref in refs]}
    for entry in sbom["dependencies"]
    if entry["ref"] in refs
]
print(json.dumps(sbom, indent=2, ensure_ascii=False))
