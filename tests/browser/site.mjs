// A PHP application of Debian's behind Tidegate: php-fpm, the server and a database, in a directory that goes afterwards.
//
// The database is the server's own, at its MySQL port; with the argument `mariadb` it is Debian's.

import { spawn, execFileSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { Browser, within } from "./chromium.mjs";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "../..");
const AS_ROOT = process.getuid() === 0;
const DATABASE = process.argv[2] ?? "embedded";

export class Site {
    /** `application`: a directory of `examples/`; `source`: where Debian has it. */
    static async start(application, source) {
        const site = new Site();
        site.directory = mkdtempSync(join(tmpdir(), `tidegate-${application}-`));
        // Of root's server the workers are somebody else.
        chmodSync(site.directory, 0o755);
        site.processes = [];
        site.port = await freePort();
        site.origin = `http://127.0.0.1:${site.port}`;
        site.html = join(site.directory, "html");
        // A copy: nothing of the machine's own installation is touched, and links of the package lead out of it.
        cpSync(source, site.html, { recursive: true, dereference: true, filter: (path) => existsSync(path) });
        site.databaseSocket = join(site.directory, "mysql.sock");
        if (DATABASE === "mariadb") await site.#startMariaDb();
        await site.#startPhp();
        await site.#startServer(application);
        site.browser = new Browser(site.directory);
        return site;
    }

    #spawn(program, args) {
        const log = openSync(join(this.directory, `${program.split("/").pop()}.log`), "a");
        const child = spawn(program, args, { cwd: this.directory, stdio: ["ignore", log, log] });
        child.on("error", (error) => { throw error; });
        this.processes.push(child);
        return child;
    }

    async #startMariaDb() {
        const data = join(this.directory, "mariadb");
        execFileSync("mariadb-install-db", ["--no-defaults", `--datadir=${data}`, "--auth-root-authentication-method=normal",
            "--skip-test-db", ...(AS_ROOT ? ["--user=root"] : [])], { stdio: "ignore" });
        this.#spawn("mariadbd", ["--no-defaults", `--datadir=${data}`, `--socket=${this.databaseSocket}`, "--skip-networking",
            ...(AS_ROOT ? ["--user=root"] : [])]);
        await there(this.databaseSocket);
        execFileSync("mariadb", ["--no-defaults", "-uroot", "-S", this.databaseSocket, "-e",
            "create database site; create user site@localhost identified by 'secret'; grant all on *.* to site@localhost with grant option"]);
    }

    /** What a statement gives, a line for each row. */
    sql(statement) {
        return execFileSync("mariadb", ["--no-defaults", "-usite", "-psecret", "-S", this.databaseSocket, "-N", "site", "-e", statement],
            { encoding: "utf8" });
    }

    async #startPhp() {
        this.phpSocket = join(this.directory, "php-fpm.sock");
        const conf = join(this.directory, "php-fpm.conf");
        const user = AS_ROOT ? "user = root\ngroup = root\n" : "";
        mkdirSync(join(this.directory, "sessions"));
        writeFileSync(conf, `[global]\nerror_log = ${this.directory}/php.log\n[www]\n${user}listen = ${this.phpSocket}\nlisten.mode = 0666\n`
            + "pm = static\npm.max_children = 6\npm.status_path = /php-status\ncatch_workers_output = yes\n"
            + `php_admin_value[session.save_path] = ${this.directory}/sessions\n`
            + `php_admin_value[mysqli.default_socket] = ${this.databaseSocket}\n`
            + "php_admin_value[upload_max_filesize] = 16M\nphp_admin_value[post_max_size] = 16M\n");
        const program = readdirSync("/usr/sbin").filter((name) => name.startsWith("php-fpm")).sort().pop();
        this.#spawn(`/usr/sbin/${program}`, ["--nodaemonize", "--fpm-config", conf, ...(AS_ROOT ? ["--allow-to-run-as-root"] : [])]);
        await there(this.phpSocket);
    }

    async #startServer(application) {
        // The example as it ships, at other places.
        let text = readFileSync(join(ROOT, "examples", application, "nginx.conf"), "utf8");
        for (const [from, to] of [
            ["listen 127.0.0.1:8080", `listen 127.0.0.1:${this.port}`],
            ["unix:/run/php/php-fpm.sock", `unix:${this.phpSocket}`],
            [/^( *root +)[^;]+;/m, `$1${this.html};`],
            ["../../conf", join(ROOT, "conf")],
            ["../demo", join(ROOT, "examples/demo")],
        ]) {
            if (text.replace(from, to) === text) throw new Error(`the example has no ${from}`);
            text = text.replaceAll(from instanceof RegExp ? new RegExp(from, "gm") : from, to);
        }
        // An example with a database of its own has one at another place, or none.
        text = text.replace(/^database \{\n[^}]*^\}\n/m, "");
        if (DATABASE === "embedded") {
            text += "database {\n    path data;\n    schema site;\n    user site password=secret;\n"
                + `    listen unix:${this.databaseSocket} mysql;\n}\n`;
        }
        mkdirSync(join(this.directory, "logs"));
        mkdirSync(join(this.directory, "conf"));
        writeFileSync(join(this.directory, "conf/nginx.conf"), text);
        const binary = process.env.TIDEGATE_BIN ?? join(ROOT, "target/debug/tidegate");
        this.#spawn(binary, ["-p", this.directory, "-c", "conf/nginx.conf", "-g", "daemon off;"]);
        await there(join(this.directory, "logs/tidegate.pid"));
    }

    /** Ends everything. The directory stays after a failure. */
    async stop(failed) {
        this.browser?.close();
        const ended = this.processes.reverse().map((child) => new Promise((resolve) => {
            if (child.exitCode !== null || child.signalCode !== null) return resolve();
            child.on("exit", resolve);
            child.kill("SIGTERM");
        }));
        await within(Promise.all(ended), "the servers end");
        if (!failed) rmSync(this.directory, { recursive: true, force: true });
    }

    /** What the server had to say that is worse than a warning and that nobody expects. */
    complaints(expected) {
        const log = readFileSync(join(this.directory, "logs/error.log"), "utf8");
        const lines = log.split("\n").filter((line) => /\[(error|crit|alert|emerg)\]|panic/.test(line));
        return lines.filter((line) => !expected?.test(line));
    }
}

async function there(path) {
    for (const end = Date.now() + 60_000; !existsSync(path);) {
        if (Date.now() > end) throw new Error(`${path} does not come to be`);
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

function freePort() {
    return new Promise((resolve) => {
        const server = createServer().listen(0, "127.0.0.1", () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

/** Runs steps on a site, prints what holds, and ends the process. `expected`: lines that may stand in the error log. */
export async function test(application, source, steps, expected = null) {
    const site = await Site.start(application, source);
    let count = 0;
    const holds = (condition, what, seen = "") => {
        if (!condition) throw new Error(`${what} does not hold ${typeof seen === "string" ? seen : JSON.stringify(seen)}`);
        count += 1;
        console.log(`ok ${what}`);
    };
    let failed = null;
    try {
        await steps(site, holds);
        const complaints = site.complaints(expected);
        holds(complaints.length === 0, "nothing in the error log", complaints.join("\n"));
    } catch (error) {
        failed = error;
    }
    await site.stop(failed);
    if (failed) console.error(`${failed.stack}\nleft: ${site.directory}`);
    console.log(`${application}: ${count} checks passed, ${failed ? 1 : 0} failed`);
    process.exit(failed ? 1 : 0);
}
