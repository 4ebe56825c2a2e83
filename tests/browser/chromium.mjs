// A headless Chromium that is told what to do over a pipe (DevTools protocol). Needs no package beside Node and Chromium.

import { spawn } from "node:child_process";
import { openSync } from "node:fs";
import { join } from "node:path";

/** How long any step may take. */
const PATIENCE_MS = 120_000;

export function within(promise, what) {
    let timer;
    const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error(`waited in vain: ${what}`)), PATIENCE_MS);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export class Browser {
    #number = 0;
    #waiting = new Map();
    #pages = new Map();
    #rest = "";

    constructor(directory) {
        const log = openSync(join(directory, "chromium.log"), "a");
        this.process = spawn(
            "chromium",
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                "--remote-debugging-pipe", `--user-data-dir=${join(directory, "chromium")}`, "about:blank"],
            { stdio: ["ignore", log, log, "pipe", "pipe"] },
        );
        const [, , , input, output] = this.process.stdio;
        this.input = input;
        output.setEncoding("utf8");
        output.on("data", (text) => {
            // Messages end in a NUL.
            const messages = (this.#rest + text).split("\0");
            this.#rest = messages.pop();
            messages.forEach((message) => this.#take(JSON.parse(message)));
        });
    }

    #take({ id, sessionId, method, params, result, error }) {
        if (id !== undefined) {
            const { resolve, reject } = this.#waiting.get(id);
            this.#waiting.delete(id);
            return error ? reject(new Error(error.message)) : resolve(result);
        }
        this.#pages.get(sessionId)?.take(method, params);
    }

    send(method, params = {}, sessionId = undefined) {
        const id = ++this.#number;
        const answer = new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
        this.input.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
        return within(answer, method);
    }

    /** A page of a visitor who has no cookies yet. */
    async visitor() {
        const { browserContextId } = await this.send("Target.createBrowserContext");
        const { targetId } = await this.send("Target.createTarget", { url: "about:blank", browserContextId });
        const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
        const page = new Page(this, sessionId);
        this.#pages.set(sessionId, page);
        for (const domain of ["Page", "Network", "Runtime", "DOM"]) await page.send(`${domain}.enable`);
        return page;
    }

    close() {
        this.process.kill("SIGKILL");
    }
}

class Page {
    #loaded = [];

    constructor(browser, sessionId) {
        Object.assign(this, { browser, sessionId, document: null, failures: [] });
    }

    send(method, params) {
        return this.browser.send(method, params, this.sessionId);
    }

    take(method, params) {
        if (method === "Page.loadEventFired") this.#loaded.splice(0).forEach((wake) => wake());
        // The user is asked whether to leave.
        if (method === "Page.javascriptDialogOpening") this.send("Page.handleJavaScriptDialog", { accept: true });
        if (method === "Network.responseReceived") {
            const { status, url, headers } = params.response;
            if (params.type === "Document") this.document = { status, url, headers: lowerCase(headers) };
            if (status >= 500 || status === 400) this.failures.push(`${status} ${url}`);
        }
    }

    /** Does something that leads to another page and waits until that is there. */
    async leadsOn(action, what) {
        const loaded = new Promise((resolve) => this.#loaded.push(resolve));
        await action();
        await within(loaded, what);
        return this.document;
    }

    goto(url) {
        return this.leadsOn(() => this.send("Page.navigate", { url }), url);
    }

    async evaluate(expression) {
        const params = { expression, awaitPromise: true, returnByValue: true };
        const { result, exceptionDetails } = await this.send("Runtime.evaluate", params);
        if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
        return result.value;
    }

    text() {
        return this.evaluate("document.body.innerText");
    }

    async until(expression) {
        const end = Date.now() + PATIENCE_MS;
        while (!(await this.evaluate(expression))) {
            if (Date.now() > end) throw new Error(`waited in vain until ${expression}`);
            await new Promise((resolve) => setTimeout(resolve, 100));
        }
    }

    /** Fills in fields (selector: value) and clicks. */
    submit(fields, button) {
        const fill = Object.entries(fields).map(([selector, value]) => `{
            const field = document.querySelector(${JSON.stringify(selector)});
            if (!field) throw new Error("no field " + ${JSON.stringify(selector)} + " at " + location);
            if (field.type === "checkbox") field.checked = ${JSON.stringify(value)};
            else field.value = ${JSON.stringify(value)};
            field.dispatchEvent(new Event("input", { bubbles: true }));
            field.dispatchEvent(new Event("change", { bubbles: true }));
        }`);
        const click = `{
            const button = document.querySelector(${JSON.stringify(button)});
            if (!button) throw new Error("no button " + ${JSON.stringify(button)} + " at " + location);
            button.disabled = false;
            setTimeout(() => button.click());
        }`;
        return this.leadsOn(() => this.evaluate(fill.join("\n") + click), `${button} was clicked`);
    }

    async chooseFile(selector, path) {
        const { root } = await this.send("DOM.getDocument");
        const { nodeId } = await this.send("DOM.querySelector", { nodeId: root.nodeId, selector });
        await this.send("DOM.setFileInputFiles", { nodeId, files: [path] });
    }
}

function lowerCase(headers) {
    return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
