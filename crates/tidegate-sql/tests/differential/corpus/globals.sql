-- SET GLOBAL: for new sessions; the open one keeps its values. Each value is put back, since the server is shared.
set global div_precision_increment = 100;
select @@global.div_precision_increment, @@div_precision_increment, 1 / 3;
set div_precision_increment = default;
select @@global.div_precision_increment, @@div_precision_increment, 1 / 3;
set global div_precision_increment = default;
select @@global.div_precision_increment, @@session.div_precision_increment;
set global sql_mode = 'bad';
set global timestamp = 1;
set global insert_id = 1;
set session max_connections = 5;
set max_connections = 5;
select @@session.max_connections;
select @@global.timestamp;
select @@global.last_insert_id;
select @@global.nosuch;
set global nosuch = 1;
set global version = 'x';
set global hostname = 'x';
set global autocommit = 0;
show global variables like 'autocommit';
show variables like 'autocommit';
show local variables like 'autocommit';
set global autocommit = 1;
set global transaction isolation level read committed;
select @@global.tx_isolation, @@tx_isolation;
set global tx_isolation = 'repeatable-read';
select @@global.tx_isolation, @@tx_isolation;
set global time_zone = '+03:00';
select @@global.time_zone, @@time_zone;
set global time_zone = 'nowhere';
set global time_zone = '+00:00';
select @@global.time_zone;
set @@global.group_concat_max_len = 5;
select @@global.group_concat_max_len, @@group_concat_max_len;
set global group_concat_max_len = default;
set local wait_timeout = 5, global wait_timeout = 77;
select @@wait_timeout, @@global.wait_timeout, @@session.wait_timeout;
set wait_timeout = default;
select @@wait_timeout;
set global wait_timeout = default;
set global sql_safe_updates = on, sql_safe_updates = 1;
select @@global.sql_safe_updates, @@sql_safe_updates;
set global sql_safe_updates = 0;
select variable_value from information_schema.global_variables where variable_name = 'sql_safe_updates';
set global max_statement_time = 1.5;
select @@global.max_statement_time, @@max_statement_time;
set global max_statement_time = 0;
set global sql_select_limit = 3;
select @@global.sql_select_limit, @@sql_select_limit;
set global sql_select_limit = default;
set global foreign_key_checks = 0;
select @@global.foreign_key_checks, @@foreign_key_checks;
set global foreign_key_checks = 1;
set global slow_query_log = off;
set slow_query_log = off;
show global variables like 'timestamp';

-- All values of a SET are read before the first is set.
set @d = 1;
set @d = 10, @e = @d * 2;
select @d, @e;
set @d = 5, @e = @d, sql_safe_updates = @d > 7;
select @d, @e, @@sql_safe_updates;
set sql_safe_updates = 0;
set @new = 10, @new = @new + 1, @more = @new;
select @new is null, @more is null;
set @d = 1, sql_mode = 'bad';
select @d;
set @d = 2, @e = nosuch;
select @d;

-- Scopes: what only sessions have, what no session has, what nobody changes.
@OWN = timestamp ;; insert_id ;; last_insert_id ;; identity ;; in_transaction ;; warning_count ;; error_count ;; rand_seed1 ;; pseudo_thread_id ;; sql_log_bin ;; gtid_seq_no ;; skip_replication ;; external_user ;; proxy_user ;; last_gtid ;; default_master_connection
set global {OWN} = 1;
set global {OWN} = default;
select @@global.{OWN};
@COMMON = max_connections ;; init_connect ;; read_only ;; event_scheduler ;; local_infile ;; connect_timeout ;; table_open_cache ;; general_log ;; innodb_file_per_table ;; key_buffer_size
set {COMMON} = default;
set session {COMMON} = 1;
set @@session.{COMMON} = default;
select @@session.{COMMON};
select @@local.{COMMON};
select @@{COMMON} is null, @@global.{COMMON} is null;
@FIXED = version ;; version_comment ;; hostname ;; port ;; license ;; log_bin ;; have_ssl ;; lower_case_table_names ;; protocol_version ;; character_set_system ;; system_time_zone ;; secure_file_priv ;; innodb_page_size ;; performance_schema ;; thread_stack ;; open_files_limit ;; skip_networking ;; innodb_rollback_on_timeout ;; ft_min_word_len
set {FIXED} = default;
set {FIXED} = 1;
set global {FIXED} = default;
set session {FIXED} = default;
select @@session.{FIXED};
select @@global.{FIXED} is null;
@COUNTED = in_transaction ;; warning_count ;; error_count ;; external_user ;; last_gtid
set {COUNTED} = default;
set session {COUNTED} = 0;
@HELD = max_allowed_packet ;; net_buffer_length ;; max_user_connections
set {HELD} = 1048576;
set session {HELD} = default;
select @@session.{HELD} = @@{HELD};
@WITHOUT = insert_id ;; last_insert_id ;; identity ;; rand_seed1 ;; pseudo_thread_id
set {WITHOUT} = default;
set last_insert_id = 17;
select last_insert_id(), @@last_insert_id, @@identity;
set session identity = 18;
select last_insert_id(), @@last_insert_id, @@identity;
set last_insert_id = 'x';
set @@session.last_insert_id = 0;
select last_insert_id(), @@session.identity;
set sort_buffer_size = 300000, version = 'x';
set statement sort_buffer_size = 400000, version = 'x' for select 1;
select @@version <> 'x';
set session version = 'x', @left = 1;
set global timestamp = 1, @left = 1;
select @left is null;
set sql_log_bin = default;
@EMPTY = secure_file_priv ;; innodb_tmpdir ;; external_user ;; relay_log ;; init_file ;; default_tmp_storage_engine
select @@{EMPTY} is null;
set innodb_lock_wait_timeout = 'a';
set group_concat_max_len = 1;
select @@group_concat_max_len;
set group_concat_max_len = default, idle_transaction_timeout = 'x';
