//! The files of the templates. Made by `UPDATE_TEMPLATES=1 cargo test -p toolyard-workshop`.

files! {
    "rust", from "host/templates/rust", to "":
        ".gitignore" "Cargo.toml" "README.md" "cases/asks.case.toml" "cases/greets.case.toml"
        "plugin/{{name}}.toml" "project.toml" "src/lib.rs";
    "rust", from "plugins/sdk", to "toolyard-plugin/":
        "Cargo.toml" "README.md" "src/asking.rs" "src/bindings/completion.rs" "src/bindings/prompts.rs"
        "src/bindings/resources.rs" "src/bindings/tools.rs" "src/bindings.rs" "src/error.rs" "src/form.rs"
        "src/http/wasi.rs" "src/http.rs" "src/lib.rs" "src/raw.rs" "src/result.rs" "src/running.rs"
        "src/schema.rs" "src/testing.rs" "src/tool.rs";
    "c", from "host/templates/c", to "":
        ".gitignore" "README.md" "cases/asks.case.toml" "cases/greets.case.toml" "plugin/{{name}}.toml"
        "project.toml" "src/json.c" "src/json.h" "src/tool.c" "src/toolyard.c" "src/toolyard.h";
    "js", from "host/templates/js", to "":
        ".gitignore" ".npmrc" "README.md" "cases/asks.case.toml" "cases/greets.case.toml"
        "engines/quickjs/package.json" "engines/quickjs/src/engine.js" "engines/quickjs/src/timers.js"
        "engines/quickjs/src/web.d.ts" "lines.mjs" "package.json" "plugin/{{name}}.toml" "project.toml"
        "src/engine.js" "src/globals.d.ts" "src/index.js" "src/node-fs.d.ts" "src/node-fs.js"
        "src/toolyard.d.ts" "src/toolyard.js" "src/web.d.ts";
    "ts", from "host/templates/ts", to "":
        ".gitignore" ".npmrc" "README.md" "cases/asks.case.toml" "cases/greets.case.toml"
        "engines/quickjs/package.json" "engines/quickjs/src/engine.js" "engines/quickjs/src/timers.js"
        "engines/quickjs/src/web.d.ts" "lines.mjs" "package.json" "plugin/{{name}}.toml" "project.toml"
        "src/engine.js" "src/globals.d.ts" "src/host.d.ts" "src/index.ts" "src/node-fs.d.ts" "src/node-fs.js"
        "src/toolyard.d.ts" "src/toolyard.js" "src/web.d.ts" "tsconfig.json";
    "python", from "host/templates/python", to "":
        ".gitignore" "README.md" "build.py" "cases/asks.case.toml" "cases/greets.case.toml"
        "plugin/{{name}}.toml" "project.toml" "requirements.txt" "src/app.py" "src/toolyard/__init__.py"
        "src/toolyard/_content.py" "src/toolyard/_host.py" "src/toolyard/_modules.py"
        "src/toolyard/_schema.py" "src/toolyard/_tools.py" "src/toolyard/_wit.py" "src/toolyard/http.py";
    "go", from "host/templates/go", to "":
        ".gitignore" "README.md" "cases/asks.case.toml" "cases/greets.case.toml" "go.mod" "main.go"
        "plugin/{{name}}.toml" "project.toml" "toolyard/abi.go" "toolyard/content.go" "toolyard/export.go"
        "toolyard/host.go" "toolyard/http.go" "toolyard/http_abi.go" "toolyard/http_error.go"
        "toolyard/schema.go" "toolyard/tool.go";
}
