# An MCP client for the shell, to try the cluster. Source it with the address:
# `. client.sh http://127.0.0.1:7420/mcp`. It opens a session, which owns its tasks.

url=${1:-http://127.0.0.1:7420/mcp}
session=

post() { # BODY [OPTIONS OF CURL]
  curl -sS "$url" -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' -d "$@"
}

in_session() { # METHOD PARAMS [OPTIONS OF CURL]
  # Requests in progress must have different ids.
  id=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')
  message="{\"jsonrpc\":\"2.0\",\"id\":$id,\"method\":\"$1\",\"params\":$2}"
  shift 2
  post "$message" -H 'mcp-protocol-version: 2025-11-25' -H "mcp-session-id: $session" "$@"
}

# Sends one request. A long answer is a stream of events; the last one is the response.
rpc() { { in_session "$@"; echo; } | sed -n -e 's/^data: *{/{/' -e '/^{/p'; }

# Calls a tool as a task.
create() { # TOOL [ARGUMENTS]
  rpc tools/call "{\"name\":\"$1\",\"arguments\":${2:-"{}"},\"task\":{\"ttl\":600000}}"
}

# Prints the tasks of this session, one per line.
tasks() { rpc tasks/list '{}' | sed 's/{"taskId"/\
&/g'; }

result() { rpc tasks/result "{\"taskId\":\"$1\"}"; } # TASK: waits for it
cancel() { rpc tasks/cancel "{\"taskId\":\"$1\"}"; } # TASK

# Prints the address of the host that nginx uses for this session. If it tried several, the last one
# answered.
served_by() {
  in_session ping '{}' -o /dev/null -D - |
    sed -n 's/^[Xx]-[Ss]erved-[Bb]y: \(.*, \)\{0,1\}\([0-9.:]*\).*/\2/p'
}

session=$(post '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",
  "capabilities":{},"clientInfo":{"name":"client.sh","version":"1"}}}' -o /dev/null -D - |
  sed -n 's/^[Mm]cp-[Ss]ession-[Ii]d: \([0-9a-f-]*\).*/\1/p')
