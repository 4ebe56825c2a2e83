// A shop on Sequelize: node shop.mjs, with $PORT, $USER and $SCHEMA. What it prints is the same at every server.

import { DataTypes, Op, QueryTypes, Sequelize, Transaction } from "sequelize";
import { SequelizeStorage, Umzug } from "umzug";

const sequelize = new Sequelize(process.env.SCHEMA, process.env.USER, "", {
    dialect: "mysql", host: "127.0.0.1", port: Number(process.env.PORT), logging: process.env.LOG ? console.error : false,
    timezone: "+00:00", pool: { max: 4 }, define: { underscored: true },
});

function say(title, value) {
    console.log(`${title}: ${JSON.stringify(value)}`);
}

/** What `work` fails with: class, and the fields or the table that it names. */
async function refused(title, work) {
    try {
        await work();
        say(title, "no error");
    } catch (error) {
        say(title, {
            name: error.name, code: error.parent?.code, errno: error.parent?.errno, state: error.parent?.sqlState,
            fields: error.fields, table: error.table, index: error.index, paths: error.errors?.map((item) => `${item.path} ${item.type}`),
        });
    }
}

const migrations = [
    {
        name: "01-customers",
        async up({ context: schema }) {
            await schema.createTable("customers", {
                id: { type: DataTypes.INTEGER.UNSIGNED, autoIncrement: true, primaryKey: true },
                email: { type: DataTypes.STRING(120), allowNull: false, unique: true },
                name: { type: DataTypes.STRING, allowNull: false, comment: "as on the invoice" },
                born: DataTypes.DATEONLY,
                settings: DataTypes.JSON,
                level: { type: DataTypes.ENUM("plain", "silver", "gold"), defaultValue: "plain" },
                created_at: { type: DataTypes.DATE(3), allowNull: false },
                updated_at: { type: DataTypes.DATE(3), allowNull: false },
                deleted_at: DataTypes.DATE(3),
            });
        },
        async down({ context: schema }) {
            await schema.dropTable("customers");
        },
    },
    {
        name: "02-products-and-orders",
        async up({ context: schema }) {
            await schema.createTable("products", {
                id: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4, primaryKey: true },
                sku: { type: DataTypes.STRING(20), allowNull: false },
                price: { type: DataTypes.DECIMAL(12, 3), allowNull: false },
                weight: DataTypes.DOUBLE,
                picture: DataTypes.BLOB("medium"),
                active: { type: DataTypes.BOOLEAN, defaultValue: true },
                stock: { type: DataTypes.BIGINT, defaultValue: 0 },
            });
            await schema.addIndex("products", ["sku"], { unique: true, name: "products_sku" });
            await schema.createTable("orders", {
                id: { type: DataTypes.BIGINT.UNSIGNED, autoIncrement: true, primaryKey: true },
                customer_id: {
                    type: DataTypes.INTEGER.UNSIGNED, allowNull: false,
                    references: { model: "customers", key: "id" }, onDelete: "RESTRICT", onUpdate: "CASCADE",
                },
                placed: DataTypes.DATE(6),
                opens: DataTypes.TIME,
            });
            await schema.createTable("lines", {
                order_id: {
                    type: DataTypes.BIGINT.UNSIGNED, primaryKey: true,
                    references: { model: "orders", key: "id" }, onDelete: "CASCADE",
                },
                product_id: { type: DataTypes.UUID, primaryKey: true, references: { model: "products", key: "id" } },
                count: { type: DataTypes.SMALLINT.UNSIGNED, allowNull: false, defaultValue: 1 },
            });
        },
        async down({ context: schema }) {
            for (const table of ["lines", "orders", "products"]) await schema.dropTable(table);
        },
    },
    {
        name: "03-changes",
        async up({ context: schema }) {
            await schema.addColumn("orders", "note", { type: DataTypes.TEXT, after: "placed" });
            await schema.renameColumn("products", "weight", "grams");
            await schema.changeColumn("products", "stock", { type: DataTypes.INTEGER, allowNull: false, defaultValue: 5 });
            await schema.addConstraint("lines", { fields: ["count"], type: "check", name: "some", where: { count: { [Op.gt]: 0 } } });
            await schema.addIndex("orders", [{ name: "placed", order: "DESC" }, "customer_id"], { name: "recent" });
            await schema.addIndex("customers", { fields: [{ name: "name", length: 10 }], name: "short_name" });
        },
        async down({ context: schema }) {
            await schema.removeIndex("customers", "short_name");
            await schema.removeIndex("orders", "recent");
            // Sequelize's own drops an index of that name.
            await schema.sequelize.query("ALTER TABLE `lines` DROP CONSTRAINT some");
            await schema.renameColumn("products", "grams", "weight");
            await schema.removeColumn("orders", "note");
        },
    },
];

const umzug = new Umzug({
    migrations, context: sequelize.getQueryInterface(), storage: new SequelizeStorage({ sequelize }), logger: undefined,
});

const Customer = sequelize.define("customer", {
    id: { type: DataTypes.INTEGER.UNSIGNED, autoIncrement: true, primaryKey: true },
    email: { type: DataTypes.STRING(120), allowNull: false, unique: true },
    name: DataTypes.STRING, born: DataTypes.DATEONLY, settings: DataTypes.JSON,
    level: DataTypes.ENUM("plain", "silver", "gold"),
}, { paranoid: true });
const Product = sequelize.define("product", {
    id: { type: DataTypes.UUID, primaryKey: true }, sku: { type: DataTypes.STRING(20), unique: true }, price: DataTypes.DECIMAL(12, 3), grams: DataTypes.DOUBLE,
    picture: DataTypes.BLOB("medium"), active: DataTypes.BOOLEAN, stock: DataTypes.INTEGER,
}, { timestamps: false });
const Order = sequelize.define("order", {
    id: { type: DataTypes.BIGINT.UNSIGNED, autoIncrement: true, primaryKey: true },
    placed: DataTypes.DATE(6), note: DataTypes.TEXT, opens: DataTypes.TIME,
}, { timestamps: false });
const Line = sequelize.define("line", { count: DataTypes.SMALLINT.UNSIGNED }, { timestamps: false });
Customer.hasMany(Order, { foreignKey: "customer_id" });
Order.belongsTo(Customer, { foreignKey: "customer_id" });
Order.belongsToMany(Product, { through: Line, foreignKey: "order_id", otherKey: "product_id" });
Product.belongsToMany(Order, { through: Line, foreignKey: "product_id", otherKey: "order_id" });
Order.hasMany(Line, { foreignKey: "order_id" });

const uuid = (number) => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
const plain = (rows) => JSON.parse(JSON.stringify(rows, (key, value) => /^(created|updated|deleted)(_at|At)$/.test(key) ? undefined : value));

async function structure() {
    const schema = sequelize.getQueryInterface();
    const tables = (await schema.showAllTables()).map((table) => table.tableName ?? table).sort();
    say("tables", tables);
    for (const table of tables) {
        say(`columns of ${table}`, await schema.describeTable(table));
        say(`indexes of ${table}`, await schema.showIndex(table));
        say(`keys of ${table}`, (await schema.getForeignKeyReferencesForTable(table))
            .map(({ constraintName, columnName, referencedTableName, referencedColumnName }) =>
                [constraintName, columnName, referencedTableName, referencedColumnName]));
    }
}

async function fill() {
    const customers = await Customer.bulkCreate([
        { email: "ada@example.org", name: "Ada Lovelace", born: "1815-12-10", settings: { theme: "dark", tags: ["a", "ü"], deep: { n: 1.5 } } },
        { email: "bob@example.org", name: "Bob 😀", level: "gold", settings: { theme: "light" } },
        { email: "eve@example.org", name: "Ève", born: "2000-02-29" },
    ]);
    say("customers", customers.map((customer) => customer.id));
    await Product.bulkCreate([1, 2, 3, 4, 5].map((n) => ({
        id: uuid(n), sku: `SKU-${n}`, price: `${n * 10}.125`, grams: n / 3, picture: Buffer.from([0, 255, n, 39, 92]), active: n !== 4,
    })));
    for (let n = 1; n <= 12; n++) {
        const order = await Order.create({
            customer_id: 1 + n % 2, placed: new Date(Date.UTC(2024, 1, n, 12, 30, 15, n * 7)), opens: `0${n % 10}:30:00`, note: n % 3 ? null : `"note" ${n}\\`,
        });
        await order.addProducts([uuid(1 + n % 5), uuid(1 + (n + 1) % 5)], { through: { count: n } });
    }
}

async function read() {
    say("one", plain(await Customer.findOne({ where: { email: "ada@example.org" } })));
    say("products", plain(await Product.findAll({ order: ["sku"] })).map((product) => [product.sku, product.price, product.grams, product.active, product.stock, Buffer.from(product.picture ?? []).toString("hex")]));
    say("eager", plain(await Customer.findAll({
        include: [{ model: Order, include: [{ model: Product, attributes: ["sku"] }], where: { note: { [Op.ne]: null } }, required: false }],
        order: ["id", [Order, "id"], [Order, Product, "sku"]],
    })));
    const page = await Order.findAndCountAll({ include: [Customer], limit: 3, offset: 3, order: [["placed", "DESC"]], distinct: true });
    say("page", [page.count, page.rows.map((order) => [order.id, order.placed, order.opens, order.customer.name])]);
    say("page with many", plain(await Order.findAll({ include: [{ model: Line, where: { count: { [Op.gt]: 4 } } }], limit: 2, offset: 1, order: ["id"] })));
    say("separate", plain(await Customer.findAll({ include: [{ model: Order, separate: true, limit: 2, order: [["id", "DESC"]] }], order: ["id"] })));
    say("sums", plain(await Line.findAll({
        attributes: ["product_id", [sequelize.fn("SUM", sequelize.col("count")), "total"], [sequelize.fn("COUNT", sequelize.literal("*")), "n"]],
        group: ["product_id"], having: sequelize.literal("total > 20"), order: [[sequelize.literal("total"), "DESC"], "product_id"], raw: true,
    })));
    say("json", plain(await Customer.findAll({ where: { "settings.theme": "dark" }, attributes: ["name"] })));
    say("json deep", plain(await Customer.findAll({ where: { settings: { deep: { n: { [Op.gt]: 1 } } } }, attributes: ["name"] })));
    say("like", await Customer.count({ where: { [Op.or]: [{ name: { [Op.startsWith]: "eve" } }, { name: { [Op.substring]: "%" } }] } }));
    say("sum, max, min", [await Product.sum("price"), await Product.max("price"), await Order.min("placed")]);
    say("raw", await sequelize.query("SELECT CAST(:n AS SIGNED) + 1 AS n, :text AS text, DATE(placed) AS day FROM orders WHERE id IN (:ids) ORDER BY id",
        { replacements: { n: 41, text: "a'b", ids: [1, 2] }, type: QueryTypes.SELECT }));
    say("bound", await sequelize.query("SELECT sku, price FROM products WHERE price > $1 AND active = $2 ORDER BY sku", { bind: [15.5, true], type: QueryTypes.SELECT }));
}

async function change() {
    say("upsert", (await Product.upsert({ id: uuid(1), sku: "SKU-1", price: "99.999", stock: 7 }))[1]);
    say("upserted", plain(await Product.findByPk(uuid(1), { attributes: ["sku", "price", "stock"] })));
    await Product.bulkCreate([{ id: uuid(2), sku: "SKU-2", price: 1 }, { id: uuid(9), sku: "SKU-9", price: 2 }], { updateOnDuplicate: ["price"] });
    await Product.bulkCreate([{ id: uuid(2), sku: "SKU-2", price: 5 }], { ignoreDuplicates: true });
    say("bulk", (await Product.findAll({ order: ["sku"] })).map((product) => [product.sku, product.price]));
    say("found", (await Customer.findOrCreate({ where: { email: "new@example.org" }, defaults: { name: "New" } })).map((item) => item.name ?? item));
    say("found again", (await Customer.findOrCreate({ where: { email: "new@example.org" }, defaults: { name: "Other" } })).map((item) => item.name ?? item));
    say("updated", await Product.update({ stock: sequelize.literal("stock + 1") }, { where: { price: { [Op.between]: [2, 50] } } }));
    const product = await Product.findByPk(uuid(3));
    await product.increment("stock", { by: 3 });
    say("incremented", (await product.reload()).stock);
    const bob = await Customer.findByPk(2);
    bob.settings = { ...bob.settings, size: [1, null, true] };
    await bob.save();
    say("json changed", plain(await bob.reload()));
    const eve = await Customer.findByPk(3);
    await eve.destroy();
    say("soft", [await Customer.count(), await Customer.count({ paranoid: false })]);
    await eve.restore();
    say("restored", await Customer.count());
    say("deleted", await Line.destroy({ where: { count: { [Op.gte]: 11 } } }));
}

async function refuse() {
    await refused("unique", () => Customer.create({ email: "ada@example.org", name: "Twice" }));
    await refused("no parent", () => Order.create({ customer_id: 999 }));
    await refused("has children", () => Customer.destroy({ where: { id: 1 }, force: true }));
    await refused("check", () => sequelize.query("UPDATE `lines` SET `count` = 0"));
    await refused("no column", () => sequelize.query("SELECT nothing FROM orders"));
    await refused("too long", () => Product.create({ id: uuid(10), sku: "x".repeat(21), price: 1 }));
    await refused("null", () => sequelize.query("INSERT INTO products (id, sku) VALUES ('x', NULL)"));
    await refused("enum", () => sequelize.query("UPDATE customers SET level = 'none'"));
}

async function transactions() {
    await refused("rolled back", () => sequelize.transaction(async (transaction) => {
        await Customer.create({ email: "t@example.org", name: "T" }, { transaction });
        throw Object.assign(new Error("no"), { name: "Mine" });
    }));
    say("none", await Customer.count({ where: { email: "t@example.org" } }));
    for (const level of Object.values(Transaction.ISOLATION_LEVELS)) {
        await sequelize.transaction({ isolationLevel: level }, async (transaction) => {
            const row = await Product.findByPk(uuid(5), { transaction, lock: transaction.LOCK.UPDATE });
            await row.update({ stock: row.stock + 1 }, { transaction });
        });
    }
    say("levels", (await Product.findByPk(uuid(5))).stock);
    const outer = await sequelize.transaction();
    await Customer.create({ email: "outer@example.org", name: "Outer" }, { transaction: outer });
    const inner = await sequelize.transaction({ transaction: outer });
    await Customer.create({ email: "inner@example.org", name: "Inner" }, { transaction: inner });
    await inner.rollback();
    say("not seen from outside", await Customer.count({ where: { email: "outer@example.org" } }));
    await outer.commit();
    say("savepoint", (await Customer.findAll({ where: { email: { [Op.like]: "%er@example.org" } }, order: ["id"] })).map((customer) => customer.name));
    const locked = await sequelize.transaction();
    await Product.findAll({ where: { sku: ["SKU-1", "SKU-2"] }, transaction: locked, lock: true });
    // Sequelize has no SKIP LOCKED for MariaDB.
    say("skipped", (await sequelize.query("SELECT sku FROM products ORDER BY id FOR UPDATE SKIP LOCKED", { type: QueryTypes.SELECT }))
        .map((product) => product.sku));
    await locked.rollback();
}

say("up", (await umzug.up()).map((migration) => migration.name));
await structure();
await fill();
await read();
await change();
await refuse();
await transactions();
say("down", (await umzug.down({ to: "03-changes" })).map((migration) => migration.name));
await structure();
say("up again", (await umzug.up()).map((migration) => migration.name));
say("down to nothing", (await umzug.down({ to: 0 })).map((migration) => migration.name));
await sequelize.sync({ force: true });
await sequelize.sync({ alter: true });
await structure();
await sequelize.drop();
await sequelize.close();
