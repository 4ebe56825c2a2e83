// phpMyAdmin behind fastcgi_pass, in a browser: node tests/browser/phpmyadmin.mjs
// docs/testing.md says what it needs.

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { test } from "./site.mjs";

/** Pages that show what the server is, what a schema has and what a table is like. */
const PAGES = [
    ["/", "Server charset"], ["/server/databases", "site"], ["/server/sql", ""], ["/server/status", ""],
    ["/server/status/processes", ""], ["/server/status/variables", "Threads"], ["/server/status/queries", ""],
    ["/server/variables", "packet"], ["/server/collations", "utf8mb4_general_ci"], ["/server/engines", "InnoDB"],
    ["/server/plugins", ""], ["/server/privileges", "site"], ["/server/export", ""], ["/server/import", ""],
    ["/database/structure&db=site", "tides"], ["/database/sql&db=site", ""], ["/database/search&db=site", ""],
    ["/database/multi-table-query&db=site", ""], ["/database/export&db=site", ""], ["/database/import&db=site", ""],
    ["/database/operations&db=site", ""], ["/database/routines&db=site", ""], ["/database/events&db=site", ""],
    ["/database/triggers&db=site", ""], ["/database/data-dictionary&db=site", "harbour"],
    ["/sql&db=site&table=tides", "Spring"], ["/table/structure&db=site&table=tides", "metres"],
    ["/table/search&db=site&table=tides", "metres"], ["/table/change&db=site&table=tides", "metres"],
    ["/table/export&db=site&table=tides", ""], ["/table/import&db=site&table=tides", ""],
    ["/table/operations&db=site&table=tides", ""], ["/table/triggers&db=site&table=tides", ""],
    ["/table/relation&db=site&table=tides", "harbour"], ["/table/indexes&db=site&table=tides&index=PRIMARY", ""],
    ["/sql&db=site&table=long_tides", "Spring"], ["/table/structure&db=site&table=long_tides", "metres"],
];

function configure(site) {
    const temporary = join(site.directory, "phpmyadmin");
    mkdirSync(temporary);
    const configuration = join(temporary, "config.inc.php");
    writeFileSync(configuration, `<?php
        $cfg['blowfish_secret'] = 'thirty-two bytes of nothing secret'; $cfg['VersionCheck'] = false;
        $cfg['Servers'][1] = ['auth_type' => 'cookie', 'host' => 'localhost', 'socket' => '${site.databaseSocket}'];
        $cfg['SendErrorReports'] = 'never'; $cfg['Error_Handler']['display'] = true;\n`);
    const paths = join(site.html, "libraries/vendor_config.php");
    writeFileSync(paths, readFileSync(paths, "utf8")
        .replace("'/etc/phpmyadmin/config.inc.php'", `'${configuration}'`)
        .replace("'/var/lib/phpmyadmin/tmp/'", `'${temporary}/'`));
}

await test("phpmyadmin", "/usr/share/phpmyadmin", async (site, holds) => {
    configure(site);
    const { origin } = site;
    const address = (route) => `${origin}/index.php?route=${route}`;
    const user = await site.browser.visitor();
    /** What the page says in red. */
    const problems = async () => user.evaluate(`[...document.querySelectorAll(".alert-danger, .error")]
        .filter((element) => element.offsetParent).map((element) => element.innerText.trim()).filter((text) => text).join("; ")`);
    const open = async (route) => {
        await user.goto(address(route));
        return { status: user.document.status, text: await user.text(), problems: await problems() };
    };
    /** Fills in the form for a row and sends it, without the page's scripts. */
    const save = (name, value) => user.leadsOn(() => user.evaluate(`{
        const field = document.querySelector(${JSON.stringify(`[name="${name}"]`)});
        field.value = ${JSON.stringify(value)};
        setTimeout(() => HTMLFormElement.prototype.submit.call(document.querySelector("#insertForm")));
    }`), "the form for a row was sent");
    /** Runs statements as the page for them does. */
    const run = (sql, db = "site") => user.evaluate(`(async () => {
        const fields = { ajax_request: "1", is_js_confirmed: "1", server: "1", db: ${JSON.stringify(db)}, sql_delimiter: ";",
            show_query: "1", pos: "0", token: CommonParams.get("token"), sql_query: ${JSON.stringify(sql)} };
        const answer = await fetch("index.php?route=/import", { method: "POST", body: new URLSearchParams(fields) });
        return answer.json();
    })()`);

    // Log in.
    await user.goto(`${origin}/`);
    await user.submit({ "#input_username": "site", "#input_password": "wrong" }, "#input_go");
    holds((await user.text()).includes("Access denied"), "a wrong password", await user.text());
    await user.submit({ "#input_username": "site", "#input_password": "secret" }, "#input_go");
    holds((await user.text()).includes("Database server"), "the user is logged in", await user.text());

    // Tables.
    for (const sql of [
        "CREATE TABLE harbours (id int PRIMARY KEY AUTO_INCREMENT, name varchar(60) NOT NULL) COMMENT 'where ships are'",
        `CREATE TABLE tides (id int unsigned PRIMARY KEY AUTO_INCREMENT, name varchar(40) NOT NULL, harbour int, metres decimal(5,2) DEFAULT 0,
            at datetime DEFAULT current_timestamp, notes text, KEY (harbour), FULLTEXT KEY (notes), UNIQUE KEY name_at (name, at),
            FOREIGN KEY (harbour) REFERENCES harbours (id) ON DELETE SET NULL)`,
        "CREATE VIEW long_tides AS SELECT name, metres FROM tides WHERE metres > 3",
        "INSERT INTO harbours (name) VALUES ('Bremen'), ('Saint-Malo')",
        "INSERT INTO tides (name, harbour, metres, notes) VALUES ('Spring', 2, 12.10, 'the moon''s'), ('Neap', 2, 2.50, NULL), ('Ebb', 1, 0.3, '')",
    ]) {
        const answer = await run(sql);
        holds(answer.success, `${sql.split(/\s+/).slice(0, 3).join(" ")}`, answer);
    }

    // Look.
    for (const [route, text] of PAGES) {
        const page = await open(route);
        const wrong = page.status !== 200 || page.problems || !page.text.includes(text);
        holds(!wrong, `the page ${route}`, page);
    }

    // Edit a row.
    await open("/sql&db=site&table=tides");
    await user.evaluate(`[...document.querySelectorAll("tr")].filter((row) => row.innerText.includes("Neap"))
        .map((row) => row.querySelector(".edit_row_anchor a")).find((link) => link).click()`);
    await user.until(`document.querySelector("#insertForm") && [...document.querySelectorAll("input, textarea")].some((one) => one.value === "Neap")`);
    const field = await user.evaluate(`[...document.querySelectorAll("input, textarea")].find((one) => one.value === "Neap" && one.name.startsWith("fields[")).name`);
    await save(field, "Neap, and low");
    holds(site.sql("select name from tides where id = 2") === "Neap, and low\n", "a row is edited", site.sql("select * from tides"));

    // Insert one.
    await user.goto(address("/table/change&db=site&table=harbours"));
    const name = await user.evaluate(`[...document.querySelectorAll("input, textarea")].filter((one) => one.name.startsWith("fields[multi_edit][0]")).at(-1).name`);
    await save(name, "Kiel");
    holds(site.sql("select name from harbours order by id desc limit 1") === "Kiel\n", "a row is inserted", site.sql("select * from harbours"));

    // Change a table, and search.
    let answer = await run("ALTER TABLE tides ADD COLUMN colour varchar(10) DEFAULT 'blue' AFTER name, ADD INDEX (colour)");
    holds(answer.success, "a column is added", answer);
    answer = await run("SELECT name FROM tides WHERE MATCH (notes) AGAINST ('moon')");
    holds(answer.success && JSON.stringify(answer).includes("Spring"), "a search", answer);
    answer = await run("SELECT nothing FROM tides");
    holds(!answer.success && answer.error.includes("#1054"), "an error has its number", answer);

    // Export.
    await user.goto(address("/database/export&db=site"));
    const dump = await user.evaluate(`(async () => {
        const form = document.querySelector("form[name=dump]");
        const answer = await fetch(form.action, { method: "POST", body: new FormData(form) });
        return answer.text();
    })()`);
    for (const part of ["CREATE TABLE `tides`", "INSERT INTO `harbours`", "'Neap, and low'", "ADD CONSTRAINT", "VIEW `long_tides`"]) {
        holds(dump.includes(part), `the export has ${part}`, dump.slice(0, 4000));
    }

    // The export is statements that can be run.
    answer = await run("CREATE DATABASE copy", "");
    holds(answer.success, "another schema", answer);
    answer = await run(dump, "copy");
    holds(answer.success, "the export is imported into it", answer);
    const sums = (schema) => ["harbours", "tides"].map((table) => site.sql(`checksum table ${schema}.${table}`).split(/\s+/)[1]).join();
    holds(sums("copy") === sums("site"), "the same rows are there", [sums("copy"), sums("site")]);

    holds(user.failures.length === 0, "no request failed", user.failures);
});
