-- What Drupal's installer and its pages send.
SET NAMES utf8mb4 COLLATE utf8mb4_general_ci;
SET sql_mode = 'ANSI,TRADITIONAL';
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;
SELECT VERSION() like '10.%';
SELECT @@SESSION.sql_mode;
SHOW VARIABLES LIKE 'innodb_large_prefix';
CREATE TABLE "drupal_install_test" (id int NOT NULL PRIMARY KEY) ENGINE=InnoDB;
INSERT INTO "drupal_install_test" (id) VALUES (1);
UPDATE "drupal_install_test" SET id = 2;
DELETE FROM "drupal_install_test";
DROP TABLE "drupal_install_test";
CREATE TABLE "key_value" (
"collection" VARCHAR(128) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL DEFAULT '' COMMENT 'A named collection of key and value pairs.',
"name" VARCHAR(128) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL DEFAULT '' COMMENT 'The key of the key-value pair. As KEY is a SQL reserved keyword, name was chosen instead.',
"value" LONGBLOB NOT NULL COMMENT 'The value.',
PRIMARY KEY ("collection", "name")
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COMMENT 'Generic key-value storage table. See the state system for…';
CREATE TABLE "sessions" (
"uid" INT unsigned NOT NULL COMMENT 'The "users".uid corresponding to a session, or 0 for anonymous user.',
"sid" VARCHAR(128) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
"hostname" VARCHAR(128) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL DEFAULT '',
"timestamp" BIGINT NOT NULL DEFAULT 0,
"session" LONGBLOB NULL DEFAULT NULL,
PRIMARY KEY ("sid"),
INDEX "timestamp" ("timestamp"),
INDEX "uid" ("uid")
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
CREATE TABLE "node_field_data" (
"nid" INT unsigned NOT NULL,
"vid" INT unsigned NOT NULL,
"type" VARCHAR(32) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
"langcode" VARCHAR(12) CHARACTER SET ascii COLLATE ascii_general_ci NOT NULL,
"status" TINYINT NOT NULL,
"title" VARCHAR(255) NOT NULL,
"created" INT NOT NULL,
"weight" DECIMAL(10, 3) NULL,
"ratio" FLOAT NULL,
PRIMARY KEY ("nid", "langcode"),
INDEX "node__id__default_langcode__langcode" ("nid", "langcode"),
INDEX "node__frontpage" ("status", "created"),
INDEX "node__title_type" ("title"(191), "type"(4))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
SHOW CREATE TABLE "key_value";
SHOW CREATE TABLE "node_field_data";
INSERT INTO "key_value" ("collection", "name", "value") VALUES ('state', 'install_time', x'693a313730303030303030303b'), ('state', 'system.private_key', 's:3:"abc";');
INSERT INTO "key_value" ("collection", "name", "value") VALUES ('state', 'install_time', 'i:2;') ON DUPLICATE KEY UPDATE "value" = VALUES("value");
SELECT "name", "value" FROM "key_value" WHERE "name" IN ('install_time', 'nosuch') AND "collection" = 'state';
SELECT 1 AS "expression" FROM "sessions" "sessions" WHERE "sid" = 'abc';
INSERT INTO "sessions" ("sid", "uid", "hostname", "session", "timestamp") VALUES ('abc', '1', '127.0.0.1', 'x|i:1;', '1700000000');
UPDATE "sessions" SET "timestamp"='1700000001' WHERE "sid" = 'abc';
INSERT INTO "node_field_data" VALUES (1, 1, 'page', 'en', 1, 'Ünïted', 1700000000, '1.5', 0.25), (2, 2, 'article', 'en', 0, 'b', 1600000000, NULL, NULL);
INSERT INTO "node_field_data" VALUES (3, 3, 'page', 'en', 1, NULL, 1, 1, 1);
INSERT INTO "node_field_data" VALUES (4, 4, 'page', 'en', 300, 'x', 1, 1, 1);
INSERT INTO "node_field_data" ("nid") VALUES (5);
SELECT "base_table"."vid" AS "vid", "base_table"."nid" AS "nid" FROM "node_field_data" "base_table" INNER JOIN "node_field_data" "n2" ON "n2"."nid" = "base_table"."nid" WHERE ("n2"."status" = '1') AND ("base_table"."title" LIKE '%N\\_%' ESCAPE '\\' OR "base_table"."title" LIKE 'ü%') GROUP BY "base_table"."nid", "base_table"."vid" ORDER BY "base_table"."nid" DESC LIMIT 10 OFFSET 0;
SELECT COUNT(*) AS "expression" FROM (SELECT 1 AS "expression" FROM "node_field_data" "n" WHERE "n"."status" = 1) "subquery";
SELECT "n"."nid" || '-' || "n"."langcode" AS "x" FROM "node_field_data" "n" ORDER BY 1;
SELECT MAX("vid") AS "vid", "type" FROM "node_field_data" GROUP BY "type" HAVING MAX("vid") > 0 ORDER BY "type";
SAVEPOINT "drupal_transaction";
START TRANSACTION;
SAVEPOINT savepoint_1;
DELETE FROM "node_field_data" WHERE "nid" = 2;
ROLLBACK TO SAVEPOINT savepoint_1;
RELEASE SAVEPOINT savepoint_1;
COMMIT;
SELECT COUNT(*) FROM "node_field_data";
SELECT table_name AS table_name FROM information_schema.tables WHERE (table_schema = 'diff') AND (table_name LIKE 'key\_%') ORDER BY table_name;
SELECT column_comment AS column_comment FROM information_schema.columns WHERE table_schema = 'diff' AND table_name = 'key_value' AND column_name = 'value';
ALTER TABLE "node_field_data" ADD "sticky" TINYINT NOT NULL DEFAULT 0 COMMENT 'Whether…', ADD INDEX "node__sticky" ("sticky");
ALTER TABLE "node_field_data" CHANGE "ratio" "ratio" DOUBLE NULL DEFAULT NULL;
ALTER TABLE "node_field_data" DROP INDEX "node__sticky";
ALTER TABLE "sessions" RENAME TO "sess";
TRUNCATE "sess";
DESCRIBE "node_field_data";
SHOW INDEX FROM "node_field_data" WHERE key_name = 'PRIMARY';
SELECT * FROM "node_field_data" ORDER BY "nid";
SET sql_mode = DEFAULT;
SET NAMES utf8mb4;
