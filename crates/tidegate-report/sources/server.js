'use strict';
const cluster = require('cluster'), fs = require('fs'), http = require('http'), path = require('path'), url = require('url');
const [port, workers, databasePort, root, redisPort] = process.argv.slice(2);

const queries = {
    '/sleep': 'select sleep(1)',
    '/row': 'select * from City order by ID limit 1',
    '/rows': 'select * from City order by ID limit 1000',
};

function compute(n) {
    const dat = [];
    for (let i = 0; i < n; i++) dat[i] = Math.floor(Math.random() * 10000);
    dat.sort((a, b) => a - b);
    let sum = 0;
    for (let i = 0; i < n; i++) sum += dat[i];
    return 'sum: ' + sum + ', cnt: ' + n + ', avg: ' + sum / n;
}

if (cluster.isPrimary) {
    for (let i = 0; i < workers; i++) cluster.fork();
    cluster.on('exit', () => process.exit(1));
} else {
    const pool = databasePort === '0' ? null : require('mysql2').createPool({
        host: '127.0.0.1', port: Number(databasePort), user: 'monty', password: 'some_pass', database: 'world',
        connectionLimit: 1024,
    });
    const retwis = redisPort === '0' ? null : require('./retwis.js').open(Number(redisPort));
    const server = http.createServer((req, res) => {
        const asked = new url.URL(req.url, 'http://localhost');
        if (asked.pathname === '/cpu') {
            res.writeHead(200, { 'Content-Type': 'text/plain' });
            res.end(compute(Number(asked.searchParams.get('n'))));
        } else if (asked.pathname === '/retwis/timeline') {
            retwis().then(html => {
                res.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8' });
                res.end(html);
            }, err => {
                res.writeHead(500);
                res.end(String(err));
            });
        } else if (queries[asked.pathname]) {
            pool.query(queries[asked.pathname], (err, rows) => {
                res.writeHead(err ? 500 : 200, { 'Content-Type': 'application/json' });
                res.end(err ? String(err) : JSON.stringify(rows));
            });
        } else {
            const file = path.join(root, path.basename(asked.pathname));
            fs.stat(file, (err, found) => {
                if (err) {
                    res.writeHead(404);
                    return res.end();
                }
                res.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': found.size });
                fs.createReadStream(file).pipe(res);
            });
        }
    });
    server.keepAliveTimeout = 600000;
    server.listen({ port: Number(port), host: '127.0.0.1', backlog: 4096 });
}
