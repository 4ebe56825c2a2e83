-- What drivers and applications send beside statements of their own: texts without a statement, old names of types, the tables of accounts.
/* nothing but this */;
/* one */ /* two */;
create table lt (a int, b long byte, c long varbinary, d long, e long varchar, f long char varying, g long varchar character set latin1);
show columns from lt;
show create table lt;
insert into lt (a, b, c, d) values (1, 'x\0y', 'b', 'text');
select a, hex(b), c, d from lt;
select table_name, table_type from information_schema.tables where table_schema = 'mysql' and table_name in ('user', 'db', 'tables_priv', 'columns_priv', 'procs_priv', 'roles_mapping') and table_name <> 'user' order by 1;
select table_name, table_type from information_schema.tables where table_schema = 'information_schema' and table_name in ('TABLES', 'COLUMNS', 'VIEWS') order by 1;
-- Connector/J says both in one statement.
set autocommit = 1, names utf8mb4 collate utf8mb4_bin, @after = 7;
select @@collation_connection, @after;
set names utf8mb4, sql_mode = concat(@@sql_mode, ',STRICT_TRANS_TABLES');
select @@collation_connection;
