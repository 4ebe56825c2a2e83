// HTTP/2 over TLS in a browser: node tests/browser/http2.mjs
// It needs Chromium and OpenSSL's program. A page with a style and a script asks for sixty things at once, of which Lua
// answers each a moment later, and sends a body that is larger than any window.

import assert from "node:assert";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BODY_BYTES = 3_000_000;
const binary = process.env.TIDEGATE_BIN ?? new URL("../../target/debug/tidegate", import.meta.url).pathname;
const directory = mkdtempSync(join(tmpdir(), "tidegate-browser-"));

const port = await new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
        const { port } = server.address();
        server.close(() => resolve(port));
    });
});

for (const name of ["conf", "html", "logs"]) mkdirSync(join(directory, name));
const openssl = spawnSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
    "-subj", "/CN=localhost", "-days", "1", "-keyout", join(directory, "conf/key.pem"), "-out", join(directory, "conf/certificate.pem")]);
assert.equal(openssl.status, 0, String(openssl.stderr));
writeFileSync(join(directory, "html/index.html"),
    "<!doctype html><title>Gate</title><link rel=stylesheet href=page.css><body><p id=out>waiting</p><script src=page.js></script>");
writeFileSync(join(directory, "html/page.css"), "p { color: rgb(1, 2, 3) }");
writeFileSync(join(directory, "html/page.js"), `(async () => {
    const answers = await Promise.all([...Array(60).keys()].map(async (number) => (await fetch("/late?number=" + number)).text()));
    const length = await (await fetch("/length", { method: "POST", body: "x".repeat(${BODY_BYTES}) })).text();
    const protocols = new Set(performance.getEntriesByType("resource").map((entry) => entry.nextHopProtocol));
    const out = document.getElementById("out");
    out.textContent = [answers.every((answer, number) => answer == number), length, [...protocols], getComputedStyle(out).color].join(" ");
})();`);
writeFileSync(join(directory, "conf/nginx.conf"), `
    daemon off; master_process off; pid logs/nginx.pid; error_log logs/error.log info; events { }
    http {
        types { text/html html; text/css css; text/javascript js; }
        server {
            listen 127.0.0.1:${port} ssl; http2 on; server_name localhost; root html;
            ssl_certificate certificate.pem; ssl_certificate_key key.pem;
            client_max_body_size 8m;
            location = /late { content_by_lua_block { ngx.sleep(0.01) ngx.print(ngx.var.arg_number) } }
            location = /length { content_by_lua_block { ngx.req.read_body() ngx.print(ngx.var.content_length) } }
        }
    }`);

const server = spawn(binary, ["-p", directory, "-c", "conf/nginx.conf"], { stdio: "inherit" });
const ended = new Promise((resolve) => server.on("exit", resolve));
for (let listens = false; !listens; ) {
    assert.equal(server.exitCode, null, "the server has ended");
    listens = await new Promise((resolve) => {
        const socket = createConnection(port, "127.0.0.1", () => resolve(true)).on("error", () => setTimeout(resolve, 50, false));
        socket.on("connect", () => socket.destroy());
    });
}
const chromium = spawnSync("chromium", ["--headless=new", "--no-sandbox", "--disable-gpu", "--ignore-certificate-errors",
    `--user-data-dir=${join(directory, "chromium")}`, "--virtual-time-budget=60000", "--dump-dom", `https://localhost:${port}/`],
    { encoding: "utf8", timeout: 120_000 });
server.kill("SIGQUIT");
assert.equal(await ended, 0);
const access = readFileSync(join(directory, "logs/access.log"), "utf8").trim().split("\n");
assert.match(chromium.stdout ?? "", new RegExp(`<p id="out">true ${BODY_BYTES} h2 rgb\\(1, 2, 3\\)</p>`), `${directory}: ${chromium.stderr}`);
assert.ok(access.every((line) => line.includes(" HTTP/2.0\" ")), access.join("\n"));
assert.doesNotMatch(readFileSync(join(directory, "logs/error.log"), "utf8"), /\[(alert|crit|emerg)\]/);
rmSync(directory, { recursive: true });
console.log(`${access.length} requests over HTTP/2`);
