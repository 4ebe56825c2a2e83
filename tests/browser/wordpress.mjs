// WordPress behind fastcgi_pass with a cache in front, in a browser: node tests/browser/wordpress.mjs
// docs/testing.md says what it needs.

import { randomBytes } from "node:crypto";
import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import zlib from "node:zlib";
import { join } from "node:path";

import { test } from "./site.mjs";

const ADMIN = { name: "ada", password: "a long pass phrase 42" };

function configure(site) {
    writeFileSync(join(site.html, "wp-config.php"), `<?php
        define('DB_NAME', 'site'); define('DB_USER', 'site'); define('DB_PASSWORD', 'secret');
        define('DB_HOST', 'localhost:${site.databaseSocket}'); define('DB_CHARSET', 'utf8mb4');
        define('WP_AUTO_UPDATE_CORE', false); define('AUTOMATIC_UPDATER_DISABLED', true); define('DISABLE_WP_CRON', true);
        define('WP_HTTP_BLOCK_EXTERNAL', true); define('WP_ACCESSIBLE_HOSTS', '127.0.0.1');
        $table_prefix = 'wp_';
        if (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');
        require_once ABSPATH . 'wp-settings.php';\n`);
    const plugins = join(site.html, "wp-content/mu-plugins");
    mkdirSync(plugins, { recursive: true });
    cpSync(new URL("../../examples/wordpress/purge.php", import.meta.url), join(plugins, "purge.php"));
}

/** A picture that compression does not make small: its upload goes to a file. */
function picture(path) {
    const chunk = (type, data) => {
        const body = Buffer.concat([Buffer.from(type), data]);
        const [size, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
        size.writeUInt32BE(data.length);
        sum.writeUInt32BE(sum32(body));
        return Buffer.concat([size, body, sum]);
    };
    const [width, rows] = [300, []];
    for (let y = 0; y < 200; y++) {
        const row = Buffer.concat([Buffer.alloc(1), randomBytes(width * 3)]);
        rows.push(row);
    }
    const head = Buffer.alloc(13);
    head.writeUInt32BE(width, 0);
    head.writeUInt32BE(200, 4);
    head.set([8, 2, 0, 0, 0], 8);
    writeFileSync(path, Buffer.concat([
        Buffer.from("89504e470d0a1a0a", "hex"), chunk("IHDR", head), chunk("IDAT", zlib.deflateSync(Buffer.concat(rows))),
        chunk("IEND", Buffer.alloc(0)),
    ]));
}

/** Of PNG, as `zlib.crc32` in later versions of Node. */
function sum32(bytes) {
    if (zlib.crc32) return zlib.crc32(bytes);
    let sum = ~0;
    for (const byte of bytes) {
        sum ^= byte;
        for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (0xedb88320 & -(sum & 1));
    }
    return ~sum >>> 0;
}

/** Writes in the block editor and saves. */
async function write(page, title, content) {
    await page.until("window.wp?.data?.select('core/editor')?.getCurrentPostId() > 0");
    await page.evaluate(`(async () => {
        const blocks = wp.blocks.parse(${JSON.stringify(`<!-- wp:paragraph --><p>${content}</p><!-- /wp:paragraph -->`)});
        await wp.data.dispatch("core/block-editor").resetBlocks(blocks);
        await wp.data.dispatch("core/editor").editPost({ title: ${JSON.stringify(title)}, status: "publish" });
        await wp.data.dispatch("core/editor").savePost();
    })()`);
    await page.until("!wp.data.select('core/editor').isSavingPost() && wp.data.select('core/editor').isCurrentPostPublished()");
    return page.evaluate(`({ id: wp.data.select("core/editor").getCurrentPostId(),
        failed: wp.data.select("core/editor").didPostSaveRequestFail() })`);
}

await test("wordpress", "/usr/share/wordpress", async (site, holds) => {
    configure(site);
    const { origin } = site;
    const admin = await site.browser.visitor();

    // Install.
    await admin.goto(`${origin}/`);
    holds(admin.document.url.includes("/wp-admin/install.php"), "a site without tables leads to the installation", admin.document);
    await admin.goto(`${origin}/wp-admin/install.php?step=1`);
    await admin.submit({
        "#weblog_title": "Sea and tides", "#user_login": ADMIN.name, "#pass1": ADMIN.password,
        "#admin_email": "ada@example.org",
    }, "#submit");
    holds((await admin.text()).includes("Success!"), "WordPress is installed", await admin.text());
    // The icon that the browser asks for meanwhile finds half of the tables.
    admin.failures = [];

    // Log in.
    await admin.goto(`${origin}/wp-login.php`);
    await admin.submit({ "#user_login": ADMIN.name, "#user_pass": ADMIN.password }, "#wp-submit");
    holds(admin.document.url.endsWith("/wp-admin/"), "the administrator is logged in", admin.document);

    // Post.
    await admin.goto(`${origin}/wp-admin/post-new.php`);
    const post = await write(admin, "Spring tide", "The moon pulls at the harbour.");
    holds(!post.failed, "a post is published");
    const address = `${origin}/?p=${post.id}`;

    // Visitors.
    const visitor = await site.browser.visitor();
    const visit = async (url) => {
        await visitor.goto(url);
        return { status: visitor.document.status, cache: visitor.document.headers["x-cache"], text: await visitor.text() };
    };
    /** The page once it holds the text: the cache is emptied after the response of what changed it. */
    const eventually = async (url, text) => {
        for (let tries = 0; ; tries++) {
            const page = await visit(url);
            if (page.text.includes(text) || tries > 100) return page;
        }
    };
    let page = await eventually(`${origin}/`, "Spring tide");
    holds(page.status === 200 && page.text.includes("Spring tide"), "the front page shows the post", page);
    page = await visit(`${origin}/`);
    holds(page.cache === "HIT" && page.text.includes("Spring tide"), "the front page comes from the cache", page);
    await visit(address);
    page = await visit(address);
    holds(page.cache === "HIT" && page.text.includes("The moon pulls"), "the post comes from the cache", page);

    // Logged in.
    await admin.goto(`${origin}/`);
    holds(admin.document.headers["x-cache"] === "BYPASS", "the administrator's page does not", admin.document);
    holds((await admin.text()).includes("Howdy"), "it has the administrator's bar");
    page = await visit(`${origin}/`);
    holds(!page.text.includes("Howdy"), "which no visitor sees", page);

    // Edit.
    await admin.goto(`${origin}/wp-admin/post.php?post=${post.id}&action=edit`);
    await write(admin, "Neap tide", "The sun pulls the other way.");
    page = await eventually(address, "The sun pulls");
    holds(page.text.includes("Neap tide"), "a change shows at once: the cache was emptied", page);
    page = await visit(address);
    holds(page.cache === "HIT" && page.text.includes("Neap tide"), "and the new page is kept", page);

    // Comment.
    const reader = await site.browser.visitor();
    await reader.goto(address);
    await reader.submit({
        "#comment": "What about lakes?", "#author": "Bo", "#email": "bo@example.org", "#wp-comment-cookies-consent": true,
    }, "#submit");
    holds((await reader.text()).includes("awaiting moderation"), "a comment waits for approval", await reader.text());
    await reader.goto(address);
    holds(reader.document.headers["x-cache"] === "BYPASS", "its author gets pages past the cache", reader.document);
    page = await visit(address);
    holds(!page.text.includes("What about lakes?"), "others do not see it yet", page);
    await admin.goto(`${origin}/wp-admin/edit-comments.php?comment_status=moderated`);
    const approve = await admin.evaluate("document.querySelector('.approve a').href");
    await admin.goto(approve);
    page = await eventually(address, "What about lakes?");
    holds(page.text.includes("What about lakes?"), "it shows when it is approved", page);

    // Upload.
    const image = join(site.directory, "noise.png");
    picture(image);
    await admin.goto(`${origin}/wp-admin/media-new.php?browser-uploader`);
    await admin.chooseFile("#async-upload", image);
    await admin.submit({}, "#html-upload");
    const source = await visitor.evaluate(`fetch("/?rest_route=/wp/v2/media").then((answer) => answer.json()).then((list) => list[0]?.source_url)`);
    const size = await visitor.evaluate(`fetch(${JSON.stringify(source ?? "/")}).then((answer) => answer.blob()).then((blob) => blob.size)`);
    holds(source?.includes("noise") && size > 100_000, "a picture was uploaded", { source, size });

    // Search.
    page = await visit(`${origin}/?s=sun`);
    holds(page.text.includes("Neap tide"), "search finds the post", page);
    page = await visit(`${origin}/?s=glacier`);
    holds(!page.text.includes("Neap tide"), "and nothing else", page);

    // Update: tables of an older version are brought up to date.
    const version = () => site.sql("select option_value from wp_options where option_name = 'db_version'").trim();
    const current = version();
    site.sql("update wp_options set option_value = '37965' where option_name = 'db_version'");
    await admin.goto(`${origin}/wp-admin/upgrade.php`);
    await admin.goto(`${origin}/wp-admin/upgrade.php?step=1`);
    holds((await admin.text()).includes("Update Complete"), "the tables are updated", await admin.text());
    holds(version() === current, "to this version", [version(), current]);

    // What php-fpm says of itself.
    page = await visit(`${origin}/php-status`);
    holds(/accepted conn: +\d+/.test(page.text), "php-fpm's status page", page);

    // Log out: pages from the cache again.
    const logout = await admin.evaluate(`fetch("/wp-admin/").then((answer) => answer.text())
        .then((text) => new DOMParser().parseFromString(text, "text/html").querySelector("#wp-admin-bar-logout a").href)`);
    await admin.goto(logout);
    await visit(`${origin}/`);
    await admin.goto(`${origin}/`);
    holds(admin.document.headers["x-cache"] === "HIT", "who has logged out gets the visitors' pages", admin.document);
    holds(!(await admin.text()).includes("Howdy"), "without the bar");

    const failures = [admin, visitor, reader].flatMap((one) => one.failures);
    holds(failures.length === 0, "no request failed", failures);
    // What PHP has to say of Debian's change to the installation.
}, /Undefined variable \$upload_/);
