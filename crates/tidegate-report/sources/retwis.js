'use strict';
// The page /timeline of examples/retwis, with Redis' own client.
const { createClient } = require('redis');

const escape = text => text.replace(/[&<>"']/g, c => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[c]);
const rich = text => escape(text).replace(/@(\w{1,20})/g, '<a href="/retwis/u/$1">@$1</a>');

function ago(seconds) {
    const past = Math.max(0, Math.floor(Date.now() / 1000) - seconds);
    for (const [unit, name] of [[86400, 'day'], [3600, 'hour'], [60, 'minute']]) {
        const count = Math.floor(past / unit);
        if (count > 0) return `${count} ${name}${count > 1 ? 's' : ''} ago`;
    }
    return 'just now';
}

const article = post => `
<article class="card">
<p>${rich(post.text)}</p>
<footer><a href="/retwis/u/${escape(post.name)}">@${escape(post.name)}</a> · ${ago(post.posted)}</footer>
</article>`;

const page = (newest, posts) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Timeline · Retwis</title>
<link rel="stylesheet" href="/retwis/style.css">
</head>
<body>
<header>
<a class="brand" href="/retwis/">Retwis</a>
<nav>
<a href="/retwis/timeline">Timeline</a>
</nav>
</header>
<main>
<h1>Timeline</h1>
<p class="newest">New here:
${newest.map(name => `<a href="/retwis/u/${escape(name)}">@${escape(name)}</a> `).join('\n')}
</p>
${posts.map(article).join('')}
<p><a href="/retwis/timeline?before=${posts[posts.length - 1].id}">Older posts</a></p>
</main>
</body>
</html>`;

exports.open = port => {
    const client = createClient({ socket: { host: '127.0.0.1', port } });
    client.on('error', err => { throw err; });
    const connected = client.connect();
    return async () => {
        await connected;
        const newest = await client.lRange('retwis:newest', 0, 9);
        const ids = await client.zRange('retwis:posts', '+inf', '-inf', { BY: 'SCORE', REV: true, LIMIT: { offset: 0, count: 20 } });
        const rows = await Promise.all(ids.map(id => client.hmGet(`retwis:post:${id}`, ['user', 'text', 'posted'])));
        const users = [...new Set(rows.map(row => row[0]))];
        const names = new Map();
        await Promise.all(users.map(async user => names.set(user, await client.hGet(`retwis:user:${user}`, 'name'))));
        return page(newest, rows.map(([user, text, posted], i) => ({ id: ids[i], name: names.get(user), text, posted: Number(posted) })));
    };
};
