# A client of MCP for the shell, to try the cluster with. To be sourced, with the address:
# `. client.sh http://127.0.0.1:7420/mcp`. It opens a session, to which its tasks belong.

url=${1:-http://127.0.0.1:7420/mcp}
session=

post() { # BODY [OPTIONS OF CURL]
  curl -sS "$url" -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' -d "$@"
}

in_session() { # METHOD PARAMS [OPTIONS OF CURL]
  # No two requests that are under way have the same one.
  id=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
  message="{\"jsonrpc\":\"2.0\",\"id\":$id,\"method\":\"$1\",\"params\":$2}"
  shift 2
  post "$message" -H 'mcp-protocol-version: 2025-11-25' -H "mcp-session-id: $session" "$@"
}

# One request. A long answer comes as a stream of events, whose last one it is.
rpc() { { in_session "$@"; echo; } | sed -n -e 's/^data: *{/{/' -e '/^{/p'; }

# Calls a tool as a task.
create() { # TOOL [ARGUMENTS]
  rpc tools/call "{\"name\":\"$1\",\"arguments\":${2:-"{}"},\"task\":{\"ttl\":600000}}"
}

# Tasks of this session, one a line.
tasks() { rpc tasks/list '{}' | sed 's/{"taskId"/\
&/g'; }

result() { rpc tasks/result "{\"taskId\":\"$1\"}"; } # TASK: waits for it
cancel() { rpc tasks/cancel "{\"taskId\":\"$1\"}"; } # TASK

# The address of the host that nginx gives this session to: the last that was asked, if
# others were away.
served_by() {
  in_session ping '{}' -o /dev/null -D - |
    sed -n 's/^[Xx]-[Ss]erved-[Bb]y: \(.*, \)\{0,1\}\([0-9.:]*\).*/\2/p'
}

session=$(post '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",
  "capabilities":{},"clientInfo":{"name":"client.sh","version":"1"}}}' -o /dev/null -D - |
  sed -n 's/^[Mm]cp-[Ss]ession-[Ii]d: \([0-9a-f-]*\).*/\1/p')
