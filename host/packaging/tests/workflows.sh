#!/usr/bin/env bash
# The workflows: YAML that parses, scripts that exist, and a release that makes and publishes everything.
set -euo pipefail
. "$(dirname "$0")/../common.sh"
. host/packaging/check.sh
. host/packaging/tools.sh
python_tools

are_consistent() {
  python3 - <<'PY'
import os, re, yaml

steps, scripts = {}, re.compile(r"(?:\./)?((?:host|plugins|tests)/[\w./-]+|\.ci/\w+)")
for name in ["ci", "nightly", "release"]:
    with open(f".github/workflows/{name}.yml", encoding="utf-8") as file:
        workflow = yaml.safe_load(file)
    # YAML reads the key `on` as true.
    assert workflow[True] and workflow["permissions"] == {"contents": "read"}, f"{name}: permissions"
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            action = step.get("uses")
            assert not action or re.fullmatch(r"[\w./-]+@(v\d+|[0-9a-f]{40})", action), f"{name}: {action}"
            assert "curl" not in step.get("run", ""), f"{name}: a step downloads a script"
        steps[name] = steps.get(name, []) + [step["run"] for step in job["steps"] if "run" in step]
    for script in scripts.findall("\n".join(steps[name])):
        assert os.access(script, os.X_OK), f"{name}: {script} is not there, or not executable"

with open("host/packaging/package.sh", encoding="utf-8") as file:
    artefacts = re.search(r"ARTEFACTS=\((.*)\)", file.read()).group(1).split()
made = [artefact for step in steps["release"] for artefact in re.findall(r"package\.sh (\w+)", step)]
assert made == artefacts, f"the release makes {made}, and package.sh makes {artefacts}"
for artefact in artefacts:
    assert os.access(f"host/packaging/{artefact}.sh", os.X_OK), f"there is no script for {artefact}"
assert "host/packaging/test.sh" in steps["release"], "the release tests nothing"
assert ".ci/run" in steps["ci"], "ci does not run .ci/run"

with open("host/packaging/publish.sh", encoding="utf-8") as file:
    places = re.findall(r"^  (\w+)\)", file.read(), re.MULTILINE)
with open(".github/workflows/release.yml", encoding="utf-8") as file:
    jobs = yaml.safe_load(file)["jobs"]
reached = jobs["publish"]["strategy"]["matrix"]["registry"] + ["github", "check"]
assert sorted(reached) == sorted(places), f"the release publishes to {reached}, and publish.sh to {places}"
assert jobs["publish"]["environment"], "publishing needs a reviewer"
PY
}

tag_is_checked() {
  ! GITHUB_REPOSITORY_OWNER=someone host/packaging/publish.sh check v0.0.1 2>"$WORK/refused"
  has "the tag v0.0.1 does not name the version $VERSION" "$WORK/refused"
}

check "workflows: they call scripts that exist, and the release makes every artefact" are_consistent
check "workflows: a tag of another version is refused" tag_is_checked
