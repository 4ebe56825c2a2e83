//! What SHOW tells of replication: the columns that programs look for, and no rows. There is no log to be read by others, and
//! nobody is followed.

/// SHOW MASTER STATUS.
pub(crate) const MASTER: &[&str] = &["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"];

/// SHOW SLAVE HOSTS.
pub(crate) const HOSTS: &[&str] = &["Server_id", "Host", "Port", "Master_id"];

/// SHOW BINLOG EVENTS.
pub(crate) const EVENTS: &[&str] = &["Log_name", "Pos", "Event_type", "Server_id", "End_log_pos", "Info"];

/// SHOW ALL SLAVES STATUS.
#[rustfmt::skip]
pub(crate) const ALL_SLAVES: &[&str] = &[
    "Connection_name",
    "Slave_SQL_State",
    "Slave_IO_State",
    "Master_Host",
    "Master_User",
    "Master_Port",
    "Connect_Retry",
    "Master_Log_File",
    "Read_Master_Log_Pos",
    "Relay_Log_File",
    "Relay_Log_Pos",
    "Relay_Master_Log_File",
    "Slave_IO_Running",
    "Slave_SQL_Running",
    "Replicate_Do_DB",
    "Replicate_Ignore_DB",
    "Replicate_Do_Table",
    "Replicate_Ignore_Table",
    "Replicate_Wild_Do_Table",
    "Replicate_Wild_Ignore_Table",
    "Last_Errno",
    "Last_Error",
    "Skip_Counter",
    "Exec_Master_Log_Pos",
    "Relay_Log_Space",
    "Until_Condition",
    "Until_Log_File",
    "Until_Log_Pos",
    "Master_SSL_Allowed",
    "Master_SSL_CA_File",
    "Master_SSL_CA_Path",
    "Master_SSL_Cert",
    "Master_SSL_Cipher",
    "Master_SSL_Key",
    "Seconds_Behind_Master",
    "Master_SSL_Verify_Server_Cert",
    "Last_IO_Errno",
    "Last_IO_Error",
    "Last_SQL_Errno",
    "Last_SQL_Error",
    "Replicate_Ignore_Server_Ids",
    "Master_Server_Id",
    "Master_SSL_Crl",
    "Master_SSL_Crlpath",
    "Using_Gtid",
    "Gtid_IO_Pos",
    "Replicate_Do_Domain_Ids",
    "Replicate_Ignore_Domain_Ids",
    "Parallel_Mode",
    "SQL_Delay",
    "SQL_Remaining_Delay",
    "Slave_SQL_Running_State",
    "Slave_DDL_Groups",
    "Slave_Non_Transactional_Groups",
    "Slave_Transactional_Groups",
    "Replicate_Rewrite_DB",
    "Retried_transactions",
    "Max_relay_log_size",
    "Executed_log_entries",
    "Slave_received_heartbeats",
    "Slave_heartbeat_period",
    "Gtid_Slave_Pos",
];

/// SHOW SLAVE STATUS: as for all, without the two columns ahead and the six behind.
pub(crate) const SLAVE: &[&str] = ALL_SLAVES.split_at(ALL_SLAVES.len() - 6).0.split_at(2).1;
