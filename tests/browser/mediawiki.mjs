// MediaWiki behind fastcgi_pass with a cache in front, in a browser: node tests/browser/mediawiki.mjs
// docs/testing.md says what it needs.

import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { test } from "./site.mjs";

const ADMIN = { name: "Ada", password: "a long pass phrase 42" };

/** Goes through the pages of the installation, filling in what it asks for. */
async function install(page, site) {
    const known = {
        mysql_wgDBserver: `localhost:${site.databaseSocket}`, mysql_wgDBname: "site", mysql__InstallUser: "site",
        mysql__InstallPassword: "secret", config_wgSitename: "Tides", config__AdminName: ADMIN.name,
        config__AdminPassword: ADMIN.password, config__AdminPasswordConfirm: ADMIN.password,
        config_wgPasswordSender: "wiki@example.org",
    };
    await page.goto(`${site.origin}/mw-config/index.php`);
    const seen = [];
    while (!page.document.url.includes("page=Complete")) {
        seen.push(new URL(page.document.url).searchParams.get("page"));
        if (seen.length > 20) throw new Error(`the installation does not end: ${seen} ${await page.text()}`);
        const problem = await page.evaluate(`document.querySelector(".config-error-box, .mw-message-box-error")?.innerText ?? ""`);
        if (problem) throw new Error(`${page.document.url}: ${problem}`);
        const fields = {};
        for (const [id, value] of Object.entries(known)) {
            if (await page.evaluate(`!!document.getElementById(${JSON.stringify(id)})`)) fields[`#${id}`] = value;
        }
        if (await page.evaluate(`!!document.getElementById("config__SkipOptional_skip")`)) {
            await page.evaluate(`document.getElementById("config__SkipOptional_skip").checked = true`);
        }
        await page.submit(fields, `input[name="submit-continue"]`);
    }
    return page.evaluate(`fetch(document.querySelector('a[href*="localsettings"]').href).then((answer) => answer.text())`);
}

await test("mediawiki", "/usr/share/mediawiki", async (site, holds) => {
    const { origin } = site;
    const settings = join(site.html, "LocalSettings.php");
    rmSync(settings, { force: true });
    for (const directory of ["images", "cache"]) mkdirSync(join(site.html, directory), { recursive: true });

    // Install.
    const admin = await site.browser.visitor();
    await admin.goto(`${origin}/`);
    holds((await admin.text()).includes("set up the wiki"), "a wiki without settings leads to the installation", await admin.text());
    const text = await install(admin, site);
    holds(text.startsWith("<?php"), "MediaWiki is installed", text);
    writeFileSync(settings, text);
    appendFileSync(settings, `\n$wgUsePathInfo = true;\n$wgUseCdn = true;\n$wgCdnServers = [ '127.0.0.1:${site.port}' ];\n`
        + `$wgInternalServer = '${origin}';\n$wgJobRunRate = 0;\n$wgEnableUploads = true;\n`);

    // Visitors.
    const visitor = await site.browser.visitor();
    const visit = async (url) => {
        await visitor.goto(url);
        return { status: visitor.document.status, cache: visitor.document.headers["x-cache"], text: await visitor.text() };
    };
    const eventually = async (url, wanted) => {
        for (let tries = 0; ; tries++) {
            const page = await visit(url);
            if (page.text.includes(wanted) || tries > 100) return page;
        }
    };
    const main = `${origin}/index.php/Main_Page`;
    let page = await visit(main);
    holds(page.status === 200 && page.text.includes("MediaWiki has been installed"), "the main page", page);
    page = await visit(main);
    holds(page.cache === "HIT", "the main page comes from the cache", page);

    // Log in.
    await admin.goto(`${origin}/index.php?title=Special:UserLogin`);
    await admin.submit({ "#wpName1": ADMIN.name, "#wpPassword1": ADMIN.password }, "#wpLoginAttempt");
    await admin.goto(main);
    holds((await admin.text()).includes("Log out") || await admin.evaluate(`!!document.querySelector("#pt-logout")`),
        "the administrator is logged in", await admin.text());
    holds(admin.document.headers["x-cache"] === "BYPASS", "the administrator's page does not come from there", admin.document);
    page = await visit(main);
    holds(page.cache === "HIT" && !page.text.includes(ADMIN.name), "no visitor gets it", page);

    // Write.
    const tide = `${origin}/index.php/Spring_tide`;
    page = await visit(tide);
    holds(page.status === 404, "a page that is not there", page);
    const write = async (title, content) => {
        await admin.goto(`${origin}/index.php?title=${title}&action=edit`);
        await admin.submit({ "#wpTextbox1": content }, "#wpSave");
    };
    await write("Spring_tide", "The moon pulls at the harbour. [[Main Page]]");
    holds((await admin.text()).includes("The moon pulls"), "a page is written", await admin.text());
    page = await eventually(tide, "The moon pulls");
    holds(page.text.includes("The moon pulls"), "visitors see it: the 404 is not kept", page);
    await visit(tide);
    page = await visit(tide);
    holds(page.cache === "HIT", "from the cache", page);

    // Edit.
    await write("Spring_tide", "The sun pulls the other way.");
    page = await eventually(tide, "The sun pulls");
    holds(page.text.includes("The sun pulls"), "a change shows at once: MediaWiki has emptied the cache", page);
    await visit(tide);
    page = await visit(tide);
    holds(page.cache === "HIT" && page.text.includes("The sun pulls"), "and the new page is kept", page);

    // A comment, as wikis have them: the talk page.
    await write("Talk:Spring_tide", "== Lakes ==\nWhat about lakes? ~~~~");
    page = await eventually(`${origin}/index.php/Talk:Spring_tide`, "What about lakes?");
    holds(page.text.includes("What about lakes?"), "the talk page", page);

    // A page of more than memory takes for a body.
    const long = "A long history of tides. ".repeat(4000);
    await write("History", long);
    page = await eventually(`${origin}/index.php/History`, "A long history");
    holds(page.text.length > 90_000, "a page of 100 KB", { length: page.text.length });

    // Search by title, which needs no index.
    page = await visit(`${origin}/index.php?search=Spring+tide`);
    holds(page.text.includes("The sun pulls"), "search leads to the page", page);

    // And by words of its text, with the index that MediaWiki keeps.
    const found = `${origin}/index.php?title=Special:Search&fulltext=1&search=`;
    page = await eventually(`${found}pulls+other`, "Spring tide");
    holds(page.text.includes("The sun pulls the other way"), "search finds words of a page", page);
    page = await visit(`${found}harbour`);
    holds(!page.text.includes("Spring tide"), "and none that it no longer has", page);

    // Update.
    const update = execFileSync("php", ["maintenance/update.php", "--quick"], { cwd: site.html, encoding: "utf8" });
    holds(/Done in/.test(update), "the tables are updated", update);

    // Somebody edits without an account.
    const guest = await site.browser.visitor();
    await guest.goto(`${origin}/index.php?title=Neap_tide&action=edit`);
    await guest.submit({ "#wpTextbox1": "Neither moon nor sun." }, "#wpSave");
    page = await eventually(`${origin}/index.php/Neap_tide`, "Neither moon");
    holds(page.text.includes("Neither moon"), "a visitor writes a page", page);

    const failures = [admin, visitor, guest].flatMap((one) => one.failures);
    holds(failures.length === 0, "no request failed", failures);
    // The installation tries whether a script among the uploaded files would run.
}, /exectest\.php/);
