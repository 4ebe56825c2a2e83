// Retwis in a browser, on the screen of a phone: node tests/browser/retwis.mjs
// It needs Chromium. Two people join, post, follow and leave; what they write stays text, and no page is wider than the screen.

import assert from "node:assert";
import { spawn } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Browser } from "./chromium.mjs";

const PHONE = { width: 360, height: 740, deviceScaleFactor: 2, mobile: true };
/** As wide as a name can be. */
const WIDE = "W".repeat(20);
const POST = `<script>document.title = "open"</script><img src=x onerror="document.title = 'open'"> ${"w".repeat(120)}`;

const binary = process.env.TIDEGATE_BIN ?? new URL("../../target/debug/tidegate", import.meta.url).pathname;
const example = new URL("../../examples/retwis", import.meta.url).pathname;
const directory = mkdtempSync(join(tmpdir(), "tidegate-retwis-"));
// Of root's server the workers are somebody else.
chmodSync(directory, 0o755);

const port = await new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
        const { port } = server.address();
        server.close(() => resolve(port));
    });
});
const origin = `http://127.0.0.1:${port}`;

// The example as it ships, at another port.
cpSync(example, directory, { recursive: true, filter: (path) => !/\/retwis\/(data|logs)$/.test(path) });
mkdirSync(join(directory, "logs"));
const configuration = readFileSync(join(directory, "nginx.conf"), "utf8");
assert.ok(configuration.includes("127.0.0.1:8081"));
writeFileSync(join(directory, "nginx.conf"), configuration.replace("127.0.0.1:8081", `127.0.0.1:${port}`));

const server = spawn(binary, ["-p", directory, "-c", "nginx.conf"], { cwd: directory, stdio: "inherit" });
const ended = new Promise((resolve) => server.on("exit", resolve));
for (let listens = false; !listens; ) {
    assert.equal(server.exitCode, null, "the server has ended");
    listens = await new Promise((resolve) => {
        const socket = createConnection(port, "127.0.0.1", () => resolve(true)).on("error", () => setTimeout(resolve, 50, false));
        socket.on("connect", () => socket.destroy());
    });
}

const browser = new Browser(directory);

/** A page of somebody with a phone. */
async function somebody() {
    const page = await browser.visitor();
    await page.send("Emulation.setDeviceMetricsOverride", PHONE);
    return page;
}

async function fits(page) {
    const width = await page.evaluate("document.documentElement.scrollWidth");
    assert.ok(width <= PHONE.width, `${page.document.url} is ${width} wide`);
}

async function open(page, path) {
    await page.goto(`${origin}${path}`);
    await fits(page);
}

/** Fills in a form of the page and sends it. */
async function send(page, action, fields) {
    const form = `form[action="${action}"]`;
    const named = Object.entries(fields).map(([name, value]) => [`${form} [name="${name}"]`, value]);
    await page.submit(Object.fromEntries(named), `${form} button`);
    await fits(page);
}

async function joined(name) {
    const page = await somebody();
    await open(page, "/");
    await send(page, "/register", { name, password: `secret of ${name}` });
    assert.match(await page.text(), new RegExp(`@${name}`), "somebody new is there");
    assert.equal(await page.evaluate("document.cookie"), "", "scripts do not see the session");
    return page;
}

const ann = await joined("Ann");
// #f2f5f8: the style is there.
assert.equal(await ann.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(242, 245, 248)");
await send(ann, "/post", { text: POST });
assert.equal(await ann.evaluate("document.querySelector('article p').innerText"), POST, "a post stays text");
assert.equal(await ann.evaluate("document.title"), "Home \u00b7 Retwis", "and no script");

const other = await joined(WIDE);
await open(other, "/timeline");
assert.match(await other.text(), new RegExp(`@${WIDE}`), "the newest people are named");
await open(other, `/u/${WIDE}`);
await open(other, "/u/ann");
await send(other, "/follow", { });
assert.match(await other.text(), /1 followers/);
assert.equal(await other.evaluate("document.querySelector('form[action=\"/unfollow\"] button').innerText"), "Stop following");
await open(ann, "/");
await send(ann, "/post", { text: `Hello @${WIDE}` });
await open(other, "/");
assert.equal(await other.evaluate("document.querySelector('article p a').getAttribute('href')"), `/u/${WIDE}`, "a name leads to its person");

await send(other, "/logout", { });
assert.ok(await other.evaluate("document.querySelector('form[action=\"/login\"]') !== null"), "the session is over");
await send(other, "/login", { name: WIDE, password: "a wrong one" });
assert.match(await other.text(), /The name or the password is wrong/);
await send(other, "/login", { name: WIDE.toLowerCase(), password: `secret of ${WIDE}` });
assert.match(await other.text(), new RegExp(`Hello @${WIDE}`));
assert.deepEqual([...ann.failures, ...other.failures], []);

browser.close();
server.kill("SIGQUIT");
assert.equal(await ended, 0);
assert.doesNotMatch(readFileSync(join(directory, "logs/error.log"), "utf8"), /\[(error|alert|crit|emerg)\]/);
rmSync(directory, { recursive: true });
console.log("two people with phones have joined, posted, followed and left");
