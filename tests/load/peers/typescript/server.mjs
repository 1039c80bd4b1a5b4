// The comparison with a server of the official TypeScript SDK: one tool that adds two numbers, over Node's
// own HTTP server. `stateless` makes a server and a transport for each request and answers with JSON, like
// the SDK's own example. `session` makes one of each per session.
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

const [mode] = process.argv.slice(2);
if (mode !== "stateless" && mode !== "session") {
  console.error("which: stateless or session?");
  process.exit(2);
}

function makeServer() {
  const server = new McpServer({ name: "adder", version: "0" });
  const inputSchema = { a: z.number(), b: z.number() };
  server.registerTool("add", { description: "Adds two numbers.", inputSchema }, ({ a, b }) => ({
    content: [{ type: "text", text: String(a + b) }],
  }));
  return server;
}

const sessions = new Map();

async function forSession(request) {
  const id = request.headers["mcp-session-id"];
  if (id !== undefined) {
    return sessions.get(id);
  }
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (made) => void sessions.set(made, transport),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await makeServer().connect(transport);
  return transport;
}

async function forRequest(response) {
  const server = makeServer();
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true });
  response.on("close", () => {
    transport.close();
    server.close();
  });
  await server.connect(transport);
  return transport;
}

const http = createServer({ noDelay: true, keepAliveTimeout: 60_000 }, async (request, response) => {
  try {
    const transport = await (mode === "session" ? forSession(request) : forRequest(response));
    if (transport === undefined) {
      response.writeHead(404).end();
      return;
    }
    await transport.handleRequest(request, response);
  } catch (error) {
    console.error(error);
    if (!response.headersSent) {
      response.writeHead(500).end();
    }
  }
});
http.listen(0, "127.0.0.1", () => {
  console.error(`typescript serves http://127.0.0.1:${http.address().port}/mcp`);
});
// Ends with the parent process.
process.stdin.on("end", () => process.exit(0)).resume();
