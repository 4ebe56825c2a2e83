// A shop on TypeORM: node shop.cjs DIALECT, with $PORT, $USER and $SCHEMA. What it prints is the same at every server.

require("reflect-metadata");
const { DataSource, EntitySchema, In, LessThan, Like, MoreThan, Raw, Table, TableColumn, TableForeignKey, TableIndex } = require("typeorm");

const type = process.argv[2] ?? "mariadb";

function say(title, value) {
    console.log(`${title}: ${JSON.stringify(value)}`);
}

async function refused(title, work) {
    try {
        await work();
        say(title, "no error");
    } catch (error) {
        say(title, [error.name, error.code, error.errno, error.sqlState, error.sqlMessage ?? error.message]);
    }
}

const Customer = new EntitySchema({
    name: "Customer",
    tableName: "customer",
    columns: {
        id: { type: "int", unsigned: true, primary: true, generated: true },
        email: { type: "varchar", length: 120, unique: true },
        name: { type: "varchar", length: 80, default: "nobody", comment: "as it is said" },
        born: { type: "date", nullable: true },
        settings: { type: "json", nullable: true },
        level: { type: "enum", enum: ["plain", "gold"], default: "plain" },
        words: { type: "simple-array", nullable: true },
        version: { type: "int", version: true },
        created: { type: "datetime", precision: 6, createDate: true },
        updated: { type: "datetime", precision: 6, updateDate: true },
        deleted: { type: "datetime", precision: 6, deleteDate: true },
    },
    relations: { orders: { type: "one-to-many", target: "Order", inverseSide: "customer", cascade: true } },
    indices: [{ name: "by_name", columns: ["name", "level"] }],
});
const Order = new EntitySchema({
    name: "Order",
    tableName: "order",
    columns: {
        id: { type: "bigint", primary: true, generated: true },
        total: { type: "decimal", precision: 14, scale: 4, default: 0 },
        exact: { type: "double", nullable: true },
        placed: { type: "datetime", precision: 3, nullable: true },
        opens: { type: "time", nullable: true },
        seal: { type: "varbinary", length: 16, nullable: true },
        note: { type: "text", nullable: true },
        paid: { type: "tinyint", width: 1, default: 0 },
        year: { type: "year", nullable: true },
    },
    relations: {
        customer: { type: "many-to-one", target: "Customer", inverseSide: "orders", onDelete: "RESTRICT", nullable: false },
        products: { type: "many-to-many", target: "Product", joinTable: { name: "order_products" }, inverseSide: "orders" },
    },
    checks: [{ name: "total_positive", expression: "`total` >= 0" }],
});
const Product = new EntitySchema({
    name: "Product",
    tableName: "product",
    columns: {
        id: { type: "varchar", length: 36, primary: true },
        sku: { type: "varchar", length: 20 },
        price: { type: "decimal", precision: 12, scale: 3 },
        gross: { type: "decimal", precision: 12, scale: 3, asExpression: "`price` * 1.2", generatedType: "STORED" },
    },
    relations: {
        orders: { type: "many-to-many", target: "Order", inverseSide: "products" },
        parent: { type: "many-to-one", target: "Product", nullable: true, onDelete: "SET NULL" },
    },
    uniques: [{ name: "product_sku", columns: ["sku"] }],
});

class More1700000000000 {
    name = "More1700000000000";
    async up(runner) {
        await runner.createTable(new Table({
            name: "review",
            columns: [
                { name: "id", type: "int", isPrimary: true, isGenerated: true, generationStrategy: "increment" },
                { name: "product", type: "varchar", length: "36" },
                { name: "stars", type: "tinyint", unsigned: true, default: 3 },
                { name: "text", type: "mediumtext", isNullable: true },
                { name: "at", type: "timestamp", precision: 6, default: "CURRENT_TIMESTAMP(6)", onUpdate: "CURRENT_TIMESTAMP(6)" },
            ],
        }), true);
        await runner.createForeignKey("review", new TableForeignKey({
            name: "review_product", columnNames: ["product"], referencedTableName: "product", referencedColumnNames: ["id"], onDelete: "CASCADE",
        }));
        await runner.createIndex("review", new TableIndex({ name: "review_stars", columnNames: ["stars", "at"] }));
        await runner.addColumn("review", new TableColumn({ name: "author", type: "varchar", length: "50", isNullable: true }));
        await runner.renameColumn("review", "author", "writer");
        await runner.changeColumn("review", "writer", new TableColumn({ name: "writer", type: "varchar", length: "70", default: "'anon'" }));
    }
    async down(runner) {
        await runner.dropColumn("review", "writer");
        await runner.dropIndex("review", "review_stars");
        await runner.dropForeignKey("review", "review_product");
        await runner.dropTable("review");
    }
}

const source = new DataSource({
    type, host: "127.0.0.1", port: Number(process.env.PORT), username: process.env.USER, database: process.env.SCHEMA, charset: "utf8mb4",
    timezone: "Z", entities: [Customer, Order, Product], migrations: [More1700000000000], logging: Boolean(process.env.LOG),
});

/** How the server shows the tables. */
async function structure() {
    const names = (await source.query("SHOW TABLES")).map((row) => Object.values(row)[0]);
    for (const table of names) {
        say(table, (await source.query(`SHOW CREATE TABLE \`${table}\``))[0]["Create Table"].replace(/ AUTO_INCREMENT=\d+/, ""));
    }
    const runner = source.createQueryRunner();
    for (const table of (await runner.getTables(names)).sort((a, b) => a.name < b.name ? -1 : 1)) {
        say(`read ${table.name.split(".").pop()}`, [
            table.columns.map((column) => [column.name, column.type, column.length, column.default, column.isNullable, column.isPrimary,
                column.isGenerated, column.isUnique, column.precision, column.scale, column.unsigned, column.comment, column.enum,
                column.asExpression, column.charset, column.collation]).sort(),
            table.indices.map((index) => [index.name, index.columnNames, index.isUnique]).sort(),
            table.foreignKeys.map((key) => [key.name, key.columnNames, key.referencedColumnNames, key.onDelete, key.onUpdate]).sort(),
        ]);
    }
    await runner.release();
    say("nothing to synchronise", (await source.driver.createSchemaBuilder().log()).upQueries.map((query) => query.query));
}

const plain = (rows) => JSON.parse(JSON.stringify(rows, (key, value) => ["created", "updated"].includes(key) ? typeof value : value));

async function fill() {
    const [customers, products, orders] = [Customer, Product, Order].map((entity) => source.getRepository(entity));
    await products.save([1, 2, 3, 4].map((n) => ({ id: `p${n}`, sku: `SKU ${n}`, price: `${n}.125`, parent: n > 2 ? { id: "p1" } : null })));
    await customers.save({
        email: "ada@example.org", name: "Ada", born: "1815-12-10", settings: { theme: "dark", list: [1, "é"] }, words: ["a", "b"],
        orders: [{ total: "12.5", exact: 0.1, note: "first" }, { total: "99.9999", opens: "-01:02:03", paid: 1, year: 2024 }],
    });
    await customers.insert([{ email: "bob@example.org", name: "Bob 😀", level: "gold" }, { email: "eve@example.org" }]);
    for (let n = 1; n < 9; n++) {
        await orders.save({
            customer: { id: 1 + n % 3 }, total: n, placed: new Date(Date.UTC(2020, 1, 20 + n, 1, 2, 3, 4 * n)), seal: Buffer.from([n, 0, 255]),
            products: [{ id: `p${1 + n % 4}` }, { id: `p${1 + (n + 1) % 4}` }],
        });
    }
}

async function read() {
    const [customers, products, orders] = [Customer, Product, Order].map((entity) => source.getRepository(entity));
    say("one", plain(await customers.findOneBy({ email: "ada@example.org" })));
    say("eager", plain(await customers.find({ relations: { orders: { products: true } }, order: { id: "ASC", orders: { id: "ASC", products: { id: "ASC" } } } })));
    say("page", plain(await orders.findAndCount({ relations: { customer: true, products: true }, order: { id: "DESC" }, skip: 2, take: 3 })));
    say("where", plain(await orders.find({ where: [{ total: MoreThan("50") }, { customer: { name: Like("Bob%") }, id: LessThan("8") }], order: { id: "ASC" } })));
    say("json", await customers.count({ where: { settings: Raw((column) => `JSON_EXTRACT(${column}, '$.theme') = 'dark'`) } }));
    say("sums", await orders.createQueryBuilder("o").innerJoin("o.customer", "c").select("c.name", "name").addSelect("SUM(o.total)", "total")
        .addSelect("COUNT(*)", "n").groupBy("c.id").having("SUM(o.total) > :least", { least: 3 }).orderBy("total", "DESC").getRawMany());
    say("subquery", await products.createQueryBuilder("p").where((query) => `p.price > ${query.subQuery().select("AVG(q.price)").from(Product, "q").getQuery()}`)
        .orderBy("p.id").getMany());
    say("exists", await customers.existsBy({ name: In(["nobody", "x"]) }));
    say("totals", [await orders.sum("total"), await orders.average("total"), await orders.maximum("exact"), await products.minimum("gross")]);
    const stream = await orders.createQueryBuilder("o").select("o.id").orderBy("o.id").limit(3).stream();
    const rows = [];
    for await (const row of stream) rows.push(row);
    say("stream", rows);
}

async function change() {
    const [customers, products, orders] = [Customer, Product, Order].map((entity) => source.getRepository(entity));
    await products.upsert([{ id: "p1", sku: "SKU 1", price: "7.5" }, { id: "p9", sku: "SKU 9", price: "9" }], ["id"]);
    say("upserted", plain(await products.find({ order: { id: "ASC" } })));
    await products.createQueryBuilder().insert().values({ id: "p1", sku: "SKU 1", price: "1" }).orIgnore().execute();
    await products.createQueryBuilder().insert().values({ id: "p2", sku: "SKU 2", price: "5" }).orUpdate(["price"], ["id"]).execute();
    say("prices", (await products.find({ order: { id: "ASC" } })).map((product) => product.price));
    const ada = await customers.findOneByOrFail({ id: 1 });
    ada.settings.theme = "light";
    ada.words.push("c");
    say("version", plain(await customers.save(ada)));
    say("updated", (await orders.update({ total: LessThan("3") }, { note: "small", total: () => "total * 2" })).affected);
    say("incremented", (await orders.increment({ id: "4" }, "total", 5)).affected);
    say("soft", (await customers.softDelete({ id: 3 })).affected);
    say("left", [await customers.count(), await customers.count({ withDeleted: true })]);
    say("back", (await customers.restore({ id: 3 })).affected);
    await source.createQueryBuilder().relation(Order, "products").of("3").remove("p1");
    await source.createQueryBuilder().relation(Order, "products").of("3").add(["p9"]);
    say("relation", (await orders.findOne({ where: { id: "3" }, relations: { products: true } })).products.map((product) => product.id).sort());
    say("deleted", (await products.delete("p1")).affected ?? null);
    say("parents", plain(await products.find({ relations: { parent: true }, order: { id: "ASC" } })));
}

async function refuse() {
    const [customers, products, orders] = [Customer, Product, Order].map((entity) => source.getRepository(entity));
    await refused("unique", () => customers.insert({ email: "ada@example.org" }));
    await refused("unique name", () => products.insert({ id: "z", sku: "SKU 2", price: "1" }));
    await refused("no parent", () => orders.insert({ customer: { id: 99 } }));
    await refused("children", () => customers.delete({ id: 1 }));
    await refused("check", () => orders.insert({ customer: { id: 1 }, total: "-1" }));
    await refused("generated", () => source.query("UPDATE product SET gross = 1"));
    await refused("too long", () => products.insert({ id: "x", sku: "x".repeat(30), price: "1" }));
    await refused("stale", () => customers.findOneOrFail({ where: { id: 77 } }));
}

async function transactions() {
    const customers = source.getRepository(Customer);
    await refused("rolled back", () => source.transaction("SERIALIZABLE", async (manager) => {
        await manager.insert(Customer, { email: "t@example.org" });
        throw new Error("mine");
    }));
    await source.transaction(async (manager) => {
        await manager.insert(Customer, { email: "outer@example.org" });
        await manager.transaction(async (inner) => {
            await inner.insert(Customer, { email: "inner@example.org" });
            throw new Error("inner");
        }).catch((error) => say("inner", error.message));
        const row = await manager.findOne(Customer, { where: { id: 2 }, lock: { mode: "pessimistic_write" } });
        await manager.update(Customer, { id: row.id }, { name: "Locked" });
    });
    say("kept", (await customers.find({ where: { email: Like("%er@example.org") } })).map((customer) => customer.email));
    say("locked", plain(await customers.findOneBy({ id: 2 })));
}

async function main() {
    await source.initialize();
    await source.synchronize(true);
    await structure();
    say("up", (await source.runMigrations()).map((migration) => migration.name));
    await structure();
    await fill();
    await read();
    await change();
    await refuse();
    await transactions();
    await source.undoLastMigration();
    say("tables", (await source.query("SHOW TABLES")).map((row) => Object.values(row)[0]));
    await source.dropDatabase();
    await source.destroy();
}

main();
