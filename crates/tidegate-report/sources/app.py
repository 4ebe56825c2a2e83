import json
import os
import random
from urllib.parse import parse_qs

import asyncmy
from asyncmy.cursors import DictCursor

QUERIES = {
    "/sleep": "select sleep(1)",
    "/row": "select * from City order by ID limit 1",
    "/rows": "select * from City order by ID limit 1000",
}
pool = None


def compute(n):
    dat = [random.randint(0, 10000) for _ in range(n)]
    dat.sort()
    total = 0
    for value in dat:
        total += value
    return f"sum: {total}, cnt: {n}, avg: {total / n}"


async def database():
    global pool
    if pool is None:
        # Two requests may come here at the same time: the later pool is the one that is kept.
        made = await asyncmy.create_pool(
            host="127.0.0.1", port=int(os.environ["DATABASE_PORT"]), user="monty", password="some_pass",
            db="world", minsize=1, maxsize=1024, autocommit=True,
        )
        pool = pool or made
    return pool


async def query(text):
    async with (await database()).acquire() as connection:
        async with connection.cursor(cursor=DictCursor) as cursor:
            await cursor.execute(text)
            return json.dumps(await cursor.fetchall())


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    path = scope["path"]
    if path == "/cpu":
        body = compute(int(parse_qs(scope["query_string"].decode())["n"][0]))
    elif path in QUERIES:
        body = await query(QUERIES[path])
    else:
        body = "Hello, world!"
    body = body.encode()
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
