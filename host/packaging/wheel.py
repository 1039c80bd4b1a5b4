"""Writes the wheel of Toolyard: wheel.py BINARY FOLDER, with the names of names.sh in the environment.

A wheel is a zip with metadata. The standard library writes it, and equal input gives equal bytes. pip
puts files of `*.data/scripts` on the PATH and makes them executable.
"""

import base64
import hashlib
import os
import sys
import time
import zipfile

binary, folder = sys.argv[1:]
name, version = os.environ["PYPI_PROJECT"], os.environ["VERSION"]
repository, mcp_name = os.environ["REPOSITORY"], os.environ["MCP_NAME"]

# The program is static, so any x86-64 Linux runs it: the first tag names systems with glibc, the second
# those with musl.
TAG = "py3-none-manylinux_2_17_x86_64.musllinux_1_1_x86_64"
LICENCES = ["LICENSE", "LICENSE-APACHE", "LICENSE-MIT"]

METADATA = f"""\
Metadata-Version: 2.4
Name: {name}
Version: {version}
Summary: {os.environ["SUMMARY"]}
License-Expression: Apache-2.0 OR MIT
{"".join(f"License-File: {licence}{chr(10)}" for licence in LICENCES)}\
Project-URL: Repository, {repository}
Keywords: mcp,model-context-protocol,webassembly,wasi,sandbox
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Rust
Requires-Python: >=3.8
Description-Content-Type: text/markdown

"""

WHEEL = f"""\
Wheel-Version: 1.0
Generator: toolyard-packaging
Root-Is-Purelib: false
Tag: py3-none-manylinux_2_17_x86_64
Tag: py3-none-musllinux_1_1_x86_64
"""


def read(path):
    with open(path, "rb") as file:
        return file.read()


def readme():
    with open("host/packaging/README.package.md", encoding="utf-8") as file:
        text = file.read().replace("REPOSITORY", repository).replace("VERSION", version)
    # The MCP registry looks for this line before it accepts the package.
    return f"{text}\nmcp-name: {mcp_name}\n"


info = f"{name}-{version}.dist-info"
files = {
    f"{name}-{version}.data/scripts/toolyard": (read(binary), 0o755),
    f"{info}/METADATA": ((METADATA + readme()).encode(), 0o644),
    f"{info}/WHEEL": (WHEEL.encode(), 0o644),
}
for licence in LICENCES:
    files[f"{info}/licenses/{licence}"] = (read(licence), 0o644)


def digest(data):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


record = [f"{path},{digest(data)},{len(data)}" for path, (data, _) in files.items()]
record.append(f"{info}/RECORD,,")
files[f"{info}/RECORD"] = (("\n".join(record) + "\n").encode(), 0o644)

# A zip cannot say a year before 1980.
moment = time.gmtime(max(int(os.environ["SOURCE_DATE_EPOCH"]), 315532800))[:6]
target = os.path.join(folder, f"{name}-{version}-{TAG}.whl")
with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
    for path, (data, mode) in files.items():
        entry = zipfile.ZipInfo(path, moment)
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        wheel.writestr(entry, data)
print(target)
