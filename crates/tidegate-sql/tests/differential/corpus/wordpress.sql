-- What WordPress's installer and its pages send.
set names utf8mb4 collate utf8mb4_unicode_520_ci;
select @@session.sql_mode;
set session sql_mode = 'NO_ENGINE_SUBSTITUTION';
show variables like 'character_set_c%';
select version() like '10.11.%';
create table wp_users (
	ID bigint(20) unsigned NOT NULL auto_increment,
	user_login varchar(60) NOT NULL default '',
	user_pass varchar(255) NOT NULL default '',
	user_nicename varchar(50) NOT NULL default '',
	user_email varchar(100) NOT NULL default '',
	user_url varchar(100) NOT NULL default '',
	user_registered datetime NOT NULL default '0000-00-00 00:00:00',
	user_activation_key varchar(255) NOT NULL default '',
	user_status int(11) NOT NULL default '0',
	display_name varchar(250) NOT NULL default '',
	PRIMARY KEY  (ID),
	KEY user_login_key (user_login),
	KEY user_nicename (user_nicename),
	KEY user_email (user_email)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
create table wp_usermeta (
	umeta_id bigint(20) unsigned NOT NULL auto_increment,
	user_id bigint(20) unsigned NOT NULL default '0',
	meta_key varchar(255) default NULL,
	meta_value longtext,
	PRIMARY KEY  (umeta_id),
	KEY user_id (user_id),
	KEY meta_key (meta_key(191))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
create table wp_options (
	option_id bigint(20) unsigned NOT NULL auto_increment,
	option_name varchar(191) NOT NULL default '',
	option_value longtext NOT NULL,
	autoload varchar(20) NOT NULL default 'yes',
	PRIMARY KEY  (option_id),
	UNIQUE KEY option_name (option_name),
	KEY autoload (autoload)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
create table wp_posts (
	ID bigint(20) unsigned NOT NULL auto_increment,
	post_author bigint(20) unsigned NOT NULL default '0',
	post_date datetime NOT NULL default '0000-00-00 00:00:00',
	post_date_gmt datetime NOT NULL default '0000-00-00 00:00:00',
	post_content longtext NOT NULL,
	post_title text NOT NULL,
	post_excerpt text NOT NULL,
	post_status varchar(20) NOT NULL default 'publish',
	comment_status varchar(20) NOT NULL default 'open',
	post_name varchar(200) NOT NULL default '',
	post_modified datetime NOT NULL default '0000-00-00 00:00:00',
	post_parent bigint(20) unsigned NOT NULL default '0',
	guid varchar(255) NOT NULL default '',
	menu_order int(11) NOT NULL default '0',
	post_type varchar(20) NOT NULL default 'post',
	post_mime_type varchar(100) NOT NULL default '',
	comment_count bigint(20) NOT NULL default '0',
	PRIMARY KEY  (ID),
	KEY post_name (post_name(191)),
	KEY type_status_date (post_type,post_status,post_date,ID),
	KEY post_parent (post_parent),
	KEY post_author (post_author)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
create table wp_terms (
	term_id bigint(20) unsigned NOT NULL auto_increment,
	name varchar(200) NOT NULL default '',
	slug varchar(200) NOT NULL default '',
	term_group bigint(10) NOT NULL default 0,
	PRIMARY KEY  (term_id),
	KEY slug (slug(191)),
	KEY name (name(191))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
create table wp_term_taxonomy (
	term_taxonomy_id bigint(20) unsigned NOT NULL auto_increment,
	term_id bigint(20) unsigned NOT NULL default 0,
	taxonomy varchar(32) NOT NULL default '',
	description longtext NOT NULL,
	parent bigint(20) unsigned NOT NULL default 0,
	count bigint(20) NOT NULL default 0,
	PRIMARY KEY  (term_taxonomy_id),
	UNIQUE KEY term_id_taxonomy (term_id,taxonomy),
	KEY taxonomy (taxonomy)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
create table wp_term_relationships (
	object_id bigint(20) unsigned NOT NULL default 0,
	term_taxonomy_id bigint(20) unsigned NOT NULL default 0,
	term_order int(11) NOT NULL default 0,
	PRIMARY KEY  (object_id,term_taxonomy_id),
	KEY term_taxonomy_id (term_taxonomy_id)
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
create table wp_comments (
	comment_ID bigint(20) unsigned NOT NULL auto_increment,
	comment_post_ID bigint(20) unsigned NOT NULL default '0',
	comment_author tinytext NOT NULL,
	comment_author_IP varchar(100) NOT NULL default '',
	comment_date_gmt datetime NOT NULL default '0000-00-00 00:00:00',
	comment_content text NOT NULL,
	comment_karma int(11) NOT NULL default '0',
	comment_approved varchar(20) NOT NULL default '1',
	comment_type varchar(20) NOT NULL default 'comment',
	comment_parent bigint(20) unsigned NOT NULL default '0',
	PRIMARY KEY  (comment_ID),
	KEY comment_post_ID (comment_post_ID),
	KEY comment_approved_date_gmt (comment_approved,comment_date_gmt),
	KEY comment_author_IP (comment_author_IP(10))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
create table wp_postmeta (
	meta_id bigint(20) unsigned NOT NULL auto_increment,
	post_id bigint(20) unsigned NOT NULL default '0',
	meta_key varchar(255) default NULL,
	meta_value longtext,
	PRIMARY KEY  (meta_id),
	KEY post_id (post_id),
	KEY meta_key (meta_key(191))
) DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci;
show create table wp_posts;
show create table wp_usermeta;
describe wp_options;
describe wp_posts;
show full columns from `wp_posts`;
show full columns from `wp_comments`;
show tables like 'wp\_users';
show tables like 'wp\_%';
show index from wp_options where key_name = 'option_name';
show index from wp_posts;
show table status like 'wp_options';
select option_name, option_value from wp_options where autoload in ('yes', 'on', 'auto-on', 'auto');
select option_value from wp_options where option_name = 'siteurl' limit 1;
insert into `wp_options` (`option_name`, `option_value`, `autoload`) values ('siteurl', 'http://example.com', 'yes') on duplicate key update `option_name` = values(`option_name`), `option_value` = values(`option_value`), `autoload` = values(`autoload`);
insert into `wp_options` (`option_name`, `option_value`, `autoload`) values ('siteurl', 'http://example.org', 'yes') on duplicate key update `option_name` = values(`option_name`), `option_value` = values(`option_value`), `autoload` = values(`autoload`);
insert into wp_options (option_name, option_value, autoload) values ('home', 'http://example.com', 'yes'), ('blogname', 'Tést 😀', 'yes'), ('_transient_doing_cron', '1700000000.1', 'yes'), ('_transient_timeout_x', '1600000000', 'no'), ('_transient_x', 'a:1:{s:1:\"k\";s:3:\"it\'s\";}', 'no');
update `wp_options` set `option_value` = 'Blog' where `option_name` = 'blogname';
update `wp_options` set `option_value` = 'Blog' where `option_name` = 'BLOGNAME';
update wp_options set autoload = 'no' where option_name in ('home', 'nosuch');
delete from `wp_options` where `option_name` = 'nosuch';
insert ignore into `wp_options` ( `option_name`, `option_value`, `autoload` ) values ('core_updater.lock', '1700000000', 'off') /* LOCK */;
insert ignore into `wp_options` ( `option_name`, `option_value`, `autoload` ) values ('core_updater.lock', '1700000001', 'off') /* LOCK */;
select option_id from wp_options order by option_name;
DELETE a, b FROM wp_options a, wp_options b
			WHERE a.option_name LIKE '\_transient\_%'
			AND a.option_name NOT LIKE '\_transient\_timeout\_%'
			AND b.option_name = CONCAT( '_transient_timeout_', SUBSTRING( a.option_name, 12 ) )
			AND b.option_value < 1700000000;
select option_name from wp_options order by option_name;
insert into `wp_users` (`user_login`, `user_pass`, `user_nicename`, `user_email`, `user_url`, `user_registered`, `user_activation_key`, `display_name`) values ('admin', '$P$Bxyz', 'admin', 'a@example.com', 'http://example.com', '2024-01-02 03:04:05', '', 'admin'), ('eve', 'x', 'eve', 'e@example.com', '', '0000-00-00 00:00:00', '', 'Eve');
select last_insert_id();
select * from wp_users where user_login = 'ADMIN' limit 1;
select ID from wp_users where user_email = 'a@example.com';
insert into `wp_usermeta` (`user_id`, `meta_key`, `meta_value`) values (1, 'wp_capabilities', 'a:1:{s:13:\"administrator\";b:1;}'), (1, 'nickname', 'admin'), (2, 'nickname', NULL), (2, 'wp_user_level', '0');
select user_id, meta_key, meta_value from wp_usermeta where user_id in (1,2) order by umeta_id asc;
select SQL_CALC_FOUND_ROWS wp_users.ID from wp_users inner join wp_usermeta on ( wp_users.ID = wp_usermeta.user_id ) where 1=1 and ( ( ( wp_usermeta.meta_key = 'nickname' ) ) ) order by user_login ASC limit 0, 1;
select FOUND_ROWS();
select COUNT(NULLIF(`meta_value` LIKE '%\"administrator\"%', false)), COUNT(NULLIF(`meta_value` = 'a:0:{}', false)), COUNT(*) from wp_usermeta inner join wp_users on user_id = ID where meta_key = 'wp_capabilities';
insert into `wp_terms` (`name`, `slug`, `term_group`) values ('Uncategorized', 'uncategorized', 0), ('Ünïcode', 'unicode', 0), ('News', 'news', 0);
insert into `wp_term_taxonomy` (`term_id`, `taxonomy`, `description`, `parent`, `count`) values (1, 'category', '', 0, 1), (2, 'post_tag', '', 0, 0), (3, 'category', '', 1, 0);
insert into `wp_term_taxonomy` (`term_id`, `taxonomy`, `description`, `parent`, `count`) values (3, 'CATEGORY', '', 1, 0);
insert into `wp_posts` (`post_author`, `post_date`, `post_date_gmt`, `post_content`, `post_excerpt`, `post_title`, `post_name`, `post_modified`, `guid`, `comment_count`) values (1, '2024-01-02 03:04:05', '2024-01-02 03:04:05', '<!-- wp:paragraph -->\n<p>Welcome to WordPress. It''s \"great\".</p>', '', 'Hello world!', 'hello-world', '2024-01-02 03:04:05', 'http://example.com/?p=1', 1), (1, '2024-02-29 00:00:00', '2024-02-29 00:00:00', 'Second', '', 'Zweiter Ärger', 'zweiter', '2024-02-29 00:00:00', 'http://example.com/?p=2', 0), (2, '2023-12-31 23:59:59', '0000-00-00 00:00:00', 'Draft', '', 'Entwurf', '', '2023-12-31 23:59:59', '', 0);
insert into wp_posts (post_author, post_content, post_title, post_excerpt, post_type, post_status, post_parent) values (1, '', 'About', '', 'page', 'publish', 0), (1, '', 'r', '', 'revision', 'inherit', 1);
insert into `wp_term_relationships` (`term_taxonomy_id`, `object_id`) values (1, 1), (1, 2), (2, 2);
replace into wp_term_relationships (object_id, term_taxonomy_id, term_order) values (2, 2, 5);
insert into `wp_comments` (`comment_post_ID`, `comment_author`, `comment_author_IP`, `comment_date_gmt`, `comment_content`) values (1, 'A WordPress Commenter', '127.0.0.1', '2024-01-02 03:04:05', 'Hi, this is a comment.'), (1, 'Spam', '10.0.0.1', '2024-01-03 03:04:05', 'buy');
update wp_comments set comment_approved = 'spam' where comment_author like 'sp%';
insert into wp_postmeta (post_id, meta_key, meta_value) values (1, '_edit_lock', '1700000000:1'), (1, 'price', '10'), (2, 'price', '9.5'), (3, 'price', 'abc'), (2, '_thumbnail_id', '7');
SELECT SQL_CALC_FOUND_ROWS  wp_posts.ID
					FROM wp_posts
					WHERE 1=1  AND ((wp_posts.post_type = 'post' AND (wp_posts.post_status = 'publish' OR wp_posts.post_status = 'private')))
					ORDER BY wp_posts.post_date DESC
					LIMIT 0, 2;
SELECT FOUND_ROWS();
SELECT wp_posts.* FROM wp_posts WHERE ID IN (1,2) order by ID;
SELECT t.term_id, t.name, tt.count, tr.object_id FROM wp_terms AS t INNER JOIN wp_term_taxonomy AS tt ON t.term_id = tt.term_id INNER JOIN wp_term_relationships AS tr ON tr.term_taxonomy_id = tt.term_taxonomy_id WHERE tt.taxonomy IN ('category', 'post_tag') AND tr.object_id IN (1, 2) ORDER BY t.name ASC, tr.object_id;
SELECT DISTINCT t.term_id, tr.object_id FROM wp_terms AS t LEFT JOIN wp_termmeta ON 1 WHERE 1;
SELECT YEAR(post_date) AS `year`, MONTH(post_date) AS `month`, count(ID) as posts FROM wp_posts WHERE post_type = 'post' AND post_status = 'publish' GROUP BY YEAR(post_date), MONTH(post_date) ORDER BY post_date DESC;
SELECT DISTINCT YEAR( post_date ) AS year, MONTH( post_date ) AS month FROM wp_posts WHERE post_type = 'post' AND post_status != 'auto-draft' AND post_status != 'trash' ORDER BY post_date DESC;
SELECT post_status, COUNT( * ) AS num_posts FROM wp_posts WHERE post_type = 'post' GROUP BY post_status order by post_status;
SELECT comment_approved, COUNT( * ) AS total FROM wp_comments GROUP BY comment_approved order by comment_approved;
SELECT wp_posts.ID FROM wp_posts WHERE 1=1 AND (((wp_posts.post_title LIKE '%hello%') OR (wp_posts.post_excerpt LIKE '%hello%') OR (wp_posts.post_content LIKE '%hello%'))) AND wp_posts.post_type IN ('post', 'page') ORDER BY wp_posts.post_title LIKE '%hello%' DESC, wp_posts.post_date DESC LIMIT 0, 10;
SELECT wp_posts.ID FROM wp_posts INNER JOIN wp_postmeta ON ( wp_posts.ID = wp_postmeta.post_id ) WHERE ( wp_postmeta.meta_key = 'price' AND CAST(wp_postmeta.meta_value AS SIGNED) >= '9' ) GROUP BY wp_posts.ID ORDER BY CAST(wp_postmeta.meta_value AS DECIMAL(10,2)) ASC;
SELECT wp_posts.ID, wp_postmeta.meta_value+0 FROM wp_posts INNER JOIN wp_postmeta ON ( wp_posts.ID = wp_postmeta.post_id ) WHERE wp_postmeta.meta_key = 'price' ORDER BY wp_postmeta.meta_value+0 DESC, ID;
SELECT p.ID FROM wp_posts AS p WHERE p.post_date < '2024-02-29 00:00:00' AND p.post_type = 'post' AND p.post_status = 'publish' ORDER BY p.post_date DESC LIMIT 1;
SELECT ID FROM wp_posts WHERE FIELD(ID, 2, 1, 3) ORDER BY FIELD(ID, 2, 1, 3);
SELECT wp_posts.ID FROM wp_posts WHERE wp_posts.post_name IN ('hello-world') AND wp_posts.post_type IN ('page','attachment','post');
SELECT post_id, meta_key, meta_value FROM wp_postmeta WHERE post_id IN (1,2) ORDER BY meta_id ASC;
UPDATE `wp_posts` SET `post_title` = 'Hello', `post_modified` = '2024-03-01 10:00:00' WHERE `ID` = 1;
UPDATE wp_term_taxonomy SET count = (SELECT COUNT(*) FROM wp_term_relationships tr WHERE tr.term_taxonomy_id = wp_term_taxonomy.term_taxonomy_id) WHERE taxonomy = 'category';
UPDATE wp_posts SET comment_count = comment_count + 1 WHERE ID = 1;
UPDATE wp_posts SET post_date = '2024-02-30 00:00:00' WHERE ID = 1;
select post_date from wp_posts where ID = 1;
INSERT INTO wp_posts (post_author) values ('');
select ID, post_author, post_content is null, post_title from wp_posts order by ID desc limit 1;
insert into wp_users (user_login) values ('abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz');
select char_length(user_login) from wp_users order by ID desc limit 1;
SELECT term_id FROM wp_terms WHERE slug = 'UNICODE' or name = 'unicode';
SELECT COUNT(*) FROM wp_posts WHERE post_date_gmt = '0000-00-00 00:00:00';
SELECT wp_posts.ID FROM wp_posts WHERE post_date_gmt > '0000-00-00 00:00:00' AND DATE_ADD(post_date_gmt, INTERVAL '5' MINUTE) < '2024-02-29 00:10:00' order by ID;
DELETE FROM wp_postmeta WHERE meta_id IN( 4,5 );
DELETE pm FROM wp_postmeta pm LEFT JOIN wp_posts wp ON wp.ID = pm.post_id WHERE wp.ID IS NULL;
ALTER TABLE wp_posts ADD COLUMN to_ping text NOT NULL AFTER post_name;
ALTER TABLE wp_posts CHANGE COLUMN `menu_order` `menu_order` bigint(20) NOT NULL default '0';
ALTER TABLE wp_options ADD KEY autoload2 (autoload);
ALTER TABLE wp_options DROP INDEX autoload2;
ALTER TABLE wp_comments MODIFY comment_author_IP varchar(100) NOT NULL default '' AFTER comment_content;
show create table wp_comments;
select table_name, engine, table_collation from information_schema.tables where table_schema = database() and table_name like 'wp\_%' order by table_name;
select column_name, data_type, character_maximum_length, is_nullable, column_key from information_schema.columns where table_schema = database() and table_name = 'wp_terms' order by ordinal_position;
SELECT GET_LOCK('wp_cron', 0);
SELECT IS_FREE_LOCK('wp_cron'), IS_USED_LOCK('wp_cron') = CONNECTION_ID(), IS_FREE_LOCK('other'), IS_USED_LOCK('other');
SELECT GET_LOCK('wp_cron', 0), RELEASE_LOCK('wp_cron'), RELEASE_LOCK('WP_Cron'), RELEASE_LOCK('wp_cron');
SELECT RELEASE_ALL_LOCKS();
SELECT GET_LOCK(NULL, 0);
SELECT RELEASE_LOCK(NULL), IS_FREE_LOCK(NULL);
drop table if exists wp_users, wp_usermeta, wp_options;
show tables;
set session sql_mode = default;
set names utf8mb4;
