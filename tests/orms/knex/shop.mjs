// A shop on Knex: node shop.mjs, with $PORT, $USER and $SCHEMA. What it prints is the same at every server.

import knex from "knex";

const connection = {
    host: "127.0.0.1", port: Number(process.env.PORT), user: process.env.USER, database: process.env.SCHEMA, charset: "utf8mb4", timezone: "Z",
};

function say(title, value) {
    console.log(`${title}: ${JSON.stringify(value)}`);
}

async function refused(title, work) {
    try {
        await work();
        say(title, "no error");
    } catch (error) {
        say(title, [error.code, error.errno, error.sqlState, error.sqlMessage ?? error.message]);
    }
}

const steps = {
    "01-people": {
        async up(db) {
            await db.schema.createTable("people", (table) => {
                table.increments("id").unsigned();
                table.string("email", 100).notNullable().unique({ indexName: "people_email" });
                table.string("name").notNullable().defaultTo("nobody").comment("as it is said");
                table.date("born");
                table.json("settings");
                table.enu("level", ["plain", "gold"]).defaultTo("plain");
                table.boolean("active").notNullable().defaultTo(true);
                table.timestamps(true, true);
                table.comment("who buys");
            });
        },
        down: (db) => db.schema.dropTable("people"),
    },
    "02-orders": {
        async up(db) {
            await db.schema.createTable("orders", (table) => {
                table.bigIncrements("id");
                table.integer("person_id").unsigned().notNullable().references("people.id").onDelete("CASCADE").withKeyName("orders_person");
                table.decimal("total", 14, 4).notNullable();
                table.float("weight", 8, 2);
                table.double("exact");
                table.datetime("placed", { precision: 6 });
                table.time("opens");
                table.timestamp("seen").nullable();
                table.binary("seal", 16);
                table.uuid("token");
                table.text("note", "mediumtext");
                table.specificType("small", "TINYINT UNSIGNED ZEROFILL");
                table.index(["person_id", "placed"], "orders_when");
            });
            await db.schema.createTable("tags", (table) => {
                table.string("name", 30).primary();
                table.bigInteger("parent").unsigned().references("id").inTable("orders");
            });
        },
        async down(db) {
            await db.schema.dropTable("tags").dropTable("orders");
        },
    },
    "03-changes": {
        async up(db) {
            await db.schema.alterTable("orders", (table) => {
                table.string("currency", 3).notNullable().defaultTo("EUR").after("total");
                table.renameColumn("note", "remark");
                table.dropColumn("weight");
                table.string("token", 50).alter();
                table.index("token");
                table.check("total >= person_id", [], "enough");
            });
            await db.schema.alterTable("people", (table) => {
                table.dropUnique("email", "people_email");
                table.unique(["email", "level"], { indexName: "people_both" });
                table.setNullable("active");
            });
            await db.schema.renameTable("tags", "labels");
            await db.schema.createView("totals", (view) => {
                view.columns(["person_id", "total", "n"]);
                view.as(db("orders").select("person_id").sum("total").count("*").groupBy("person_id"));
            });
        },
        async down(db) {
            await db.schema.dropView("totals");
            await db.schema.renameTable("labels", "tags");
            await db.schema.alterTable("people", (table) => {
                table.dropUnique(["email", "level"], "people_both");
                table.unique("email", { indexName: "people_email" });
                table.dropNullable("active");
            });
            await db.schema.alterTable("orders", (table) => {
                table.dropChecks("enough");
                table.dropIndex("token");
                table.renameColumn("remark", "note");
                table.dropColumn("currency");
                table.float("weight", 8, 2);
            });
        },
    },
};

const db = knex({
    client: "mysql2", connection, pool: { min: 0, max: 4 }, debug: Boolean(process.env.LOG),
    migrations: {
        migrationSource: {
            getMigrations: async () => Object.keys(steps), getMigrationName: (name) => name, getMigration: async (name) => steps[name],
        },
    },
});

async function structure() {
    const [tables] = await db.raw("SHOW FULL TABLES");
    say("tables", tables.map((table) => Object.values(table)));
    for (const table of tables.map((row) => Object.values(row)[0]).filter((name) => !name.startsWith("knex_"))) {
        say(`columns of ${table}`, await db(table).columnInfo());
        if (table !== "totals") say(table, Object.values((await db.raw("SHOW CREATE TABLE ??", [table]))[0][0])[1].replace(/ AUTO_INCREMENT=\d+/, ""));
    }
    say("has", [await db.schema.hasTable("labels"), await db.schema.hasColumn("orders", "currency"), await db.schema.hasTable("none")]);
}

async function fill() {
    say("first id", await db("people").insert({ email: "ada@example.org", name: "Ada", born: "1815-12-10", settings: JSON.stringify({ a: [1, "é"], b: { c: null } }) }));
    say("next ids", await db("people").insert([
        { email: "bob@example.org", name: "Bob 😀", level: "gold" }, { email: "eve@example.org", name: "Ève", active: false },
    ]));
    const orders = Array.from({ length: 25 }, (_, n) => ({
        person_id: 1 + n % 3, total: `${n * 3 + 3}.0625`, exact: n / 7, placed: new Date(Date.UTC(2023, 10, n + 1, 23, 59, 59, 40 * n)),
        opens: n % 2 ? "-12:30:00" : "800:00:01", seal: Buffer.from([n, 0, 92]), token: `token ${n}`, remark: n % 5 ? null : "x".repeat(n), small: n,
    }));
    await db.batchInsert("orders", orders, 10);
    await db("labels").insert([{ name: "first", parent: 1 }, { name: "none", parent: null }]);
}

async function read() {
    say("people", (await db("people").orderBy("id")).map(({ created_at, updated_at, ...row }) => [row, created_at instanceof Date]));
    say("order", await db("orders").where("id", 7).first());
    say("page", await db("orders as o").join("people as p", "p.id", "o.person_id").select("o.id", "p.name", "o.total", "o.small")
        .whereNotNull("o.placed").orderBy([{ column: "p.name", order: "desc" }, "o.id"]).limit(4).offset(9));
    say("groups", await db("orders").select("person_id", db.raw("DATE_FORMAT(placed, '%Y-%m') AS month")).sum({ total: "total" }).avg({ mean: "exact" })
        .min("opens as low").countDistinct("seal as n").groupBy("person_id", "month").having("n", ">", 3).orderBy(["person_id", "month"]));
    say("view", await db("totals").orderBy("person_id"));
    say("json", await db("people").select("name").jsonExtract("settings", "$.a[1]", "second").whereJsonPath("settings", "$.a[0]", "=", 1));
    say("contains", await db("people").pluck("name").whereJsonSupersetOf("settings", { b: { c: null } }));
    say("json object", await db("people").pluck("name").whereJsonObject("settings", { a: [1, "é"], b: { c: null } }));
    say("with", await db.withRecursive("down", ["n"], (query) => query.select("id").from("people").where("id", 1).unionAll((next) => next.select(db.raw("n + 1")).from("down").where("n", "<", 5)))
        .select("n").from("down").orderBy("n"));
    say("window", await db("orders").select("id").rank("place", (over) => over.orderBy("total", "desc").partitionBy("person_id")).rowNumber("n", "id").orderBy("id").limit(4));
    say("union", await db("people").select("name").whereIn("id", [1, 2]).union([db("labels").select("name")], true).orderBy("name"));
    say("exists", await db("people").whereExists(db("orders").whereRaw("orders.person_id = people.id").where("total", ">", 70)).pluck("email"));
    say("like", await db("people").where("name", "like", "È%").orWhere("name", "like", "a%").orderBy("id").pluck("id"));
    const rows = [];
    for await (const row of db("orders").select("id", "total").orderBy("id").limit(5).stream()) rows.push(row);
    say("stream", rows);
}

async function change() {
    say("ignored", await db("people").insert({ id: 1, email: "x", name: "X" }).onConflict("id").ignore());
    say("merged", await db("people").insert([{ id: 1, email: "ada@example.org", name: "Ada L." }, { id: 9, email: "nine@example.org", name: "Nine" }]).onConflict("id").merge(["name"]));
    say("names", await db("people").orderBy("id").pluck("name"));
    say("updated", await db("orders").where("total", "<", 20).update({ total: db.raw("?? * ?", ["total", 2]), remark: "half" }));
    say("counted", await db("orders").where({ id: 3 }).increment({ small: 5 }).decrement("total", 1));
    say("with limit", await db("orders").orderBy("id", "desc").limit(2).update({ currency: "USD" }));
    say("joined", await db("orders").join("people", "people.id", "orders.person_id").where("people.level", "gold").update({ "orders.currency": "CHF" }));
    say("totals", await db("orders").select("id", "total", "small", "currency").orderBy("id").limit(9));
    say("deleted", await db("orders").where("id", ">", 20).del());
    say("json set", await db("people").where("id", 1).update({ settings: db.jsonSet("settings", "$.a[2]", 3) }));
    say("json", await db("people").where("id", 1).pluck("settings"));
    say("cascade", [await db("labels").del(), await db("people").where("id", 3).del(), await db("orders").where("person_id", 3).count("* as n")]);
    await db("labels").truncate();
}

async function refuse() {
    await refused("unique", () => db("people").insert({ email: "ada@example.org" }));
    await refused("no parent", () => db("orders").insert({ person_id: 77, total: 100 }));
    await refused("check", () => db("orders").insert({ person_id: 2, total: 1 }));
    await refused("out of range", () => db("orders").insert({ person_id: 2, total: "12345678901.5" }));
    await refused("date", () => db("people").insert({ email: "d", born: "2023-02-30" }));
    await refused("json", () => db("people").insert({ email: "j", settings: "{" }));
    // MariaDB does not say whose.
    await refused("drop parent", () => db.schema.dropTable("people").catch((error) => { throw { code: error.code }; }));
    await refused("no default", () => db("orders").insert({ person_id: 2 }));
    await refused("timeout", () => db.raw("SELECT SLEEP(5)").timeout(200, { cancel: true }).catch((error) => { throw { message: error.message }; }));
}

async function transactions() {
    await refused("rolled back", () => db.transaction(async (work) => {
        await work("people").insert({ email: "t", name: "T" });
        throw new Error("mine");
    }));
    say("none", await db("people").where("email", "t").count("* as n"));
    const work = await db.transaction({ isolationLevel: "repeatable read" });
    await work("people").insert({ email: "kept", name: "Kept" });
    await work.transaction(async (inner) => {
        await inner("people").insert({ email: "lost", name: "Lost" });
        throw new Error("inner");
    }).catch((error) => say("savepoint", error.message));
    say("locked", await work("people").where("id", 2).forUpdate().pluck("id"));
    say("no wait", await db("people").orderBy("id").forUpdate().skipLocked().limit(1).pluck("id").catch((error) => error.code));
    await refused("nowait", () => db("people").where("id", 2).forUpdate().noWait());
    await work.commit();
    say("kept", await db("people").whereIn("email", ["kept", "lost"]).pluck("email"));
}

say("latest", await db.migrate.latest());
say("version", await db.migrate.currentVersion());
await structure();
await fill();
await read();
await change();
await refuse();
await transactions();
say("down", await db.migrate.down());
await structure();
say("up", await db.migrate.up());
await structure();
say("rollback", await db.migrate.rollback(undefined, true));
say("left", (await db.raw("SHOW TABLES"))[0].length);
await db.destroy();
