//! Statements and their results.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tidegate_mysql::{Conn, ConnectOptions, Timeouts, TlsClient, TlsMode, TlsOptions, TlsVerify};
use tidegate_rows::{
    Execute, Param, QueryError, Stage, Statement,
    json::{Json, JsonOptions},
    sink::Collect,
};

use crate::{
    server::shared,
    sinks::{Slow, comes_through, csv, rows, rows_with},
};

async fn connect(options: ConnectOptions) -> Conn {
    Conn::connect(Arc::new(options)).await.unwrap()
}

async fn native() -> Conn {
    connect(shared().user("native", "some_pass")).await
}

async fn json(conn: &mut Conn, sql: &str, params: &[Param]) -> String {
    let options = JsonOptions::default();
    let mut sink = Collect { format: Json::new(&options), out: Vec::new() };
    conn.execute(Statement { sql: sql.as_bytes(), params }, &mut sink).await.unwrap();
    String::from_utf8(sink.out).unwrap()
}

#[tokio::test]
async fn rows_become_json() {
    let mut conn = native().await;
    let expected = r#"[{"id":2,"name":null},{"id":3,"name":"bob"}]"#;
    assert_eq!(json(&mut conn, "select * from test.cats order by id", &[]).await, expected);
    assert_eq!(json(&mut conn, "select * from test.cats where id > ? order by id", &[Param::Int(0)]).await, expected);
    assert_eq!(json(&mut conn, "select * from test.cats where id > 99", &[]).await, "[]");
}

#[tokio::test]
async fn statements_without_rows() {
    let mut conn = native().await;
    let table = "create temporary table test.t (id int auto_increment primary key, v int)";
    assert_eq!(json(&mut conn, table, &[]).await, r#"{"errcode":0}"#);
    assert_eq!(
        json(&mut conn, "insert into test.t (v) values (1), (2)", &[]).await,
        r#"{"errcode":0,"errstr":"Records: 2  Duplicates: 0  Warnings: 0","insert_id":1,"affected_rows":2}"#
    );
    assert_eq!(
        json(&mut conn, "insert into test.t (v) values (?)", &[Param::Int(3)]).await,
        r#"{"errcode":0,"insert_id":3,"affected_rows":1}"#
    );
    assert_eq!(
        json(&mut conn, "update test.t set v = 1 where v = 1", &[]).await,
        r#"{"errcode":0,"errstr":"Rows matched: 1  Changed: 0  Warnings: 0"}"#
    );
}

#[tokio::test]
async fn errors_leave_the_connection_usable() {
    let mut conn = native().await;
    for (sql, code, state) in
        [("select * from test.missing", 1146, "42S02"), ("selec", 1064, "42000"), ("", 1065, "42000")]
    {
        match rows(&mut conn, sql).await {
            Err(QueryError::Server(error)) => assert_eq!((error.code, error.sqlstate()), (code, state)),
            other => panic!("{other:?}"),
        }
        match rows_with(&mut conn, sql.as_bytes(), &[Param::Int(1)]).await {
            Err(QueryError::Server(error)) => assert!(error.code == code || error.code == 1210, "{error}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(conn.is_idle());
    assert_eq!(rows(&mut conn, "select 1").await.unwrap(), "1\n");
}

/// One column of each type, as text and over the binary protocol: both must give the same text.
#[tokio::test]
async fn types_are_exact_in_both_protocols() {
    let mut conn = native().await;
    let table = "create temporary table test.types (
        a tinyint, b tinyint unsigned, c smallint, d mediumint, e int unsigned, f bigint, g bigint unsigned,
        h decimal(40, 10), i double, j float, k date, l datetime(6), m time(3), n year, o timestamp(2) null,
        p bit(12), q varbinary(10), r varchar(20), s text, t enum('x', 'y'), u set('p', 'q'), v json, w int(5) zerofill)";
    rows(&mut conn, table).await.unwrap();
    let insert = "insert into test.types values
        (-128, 255, -32768, -8388608, 4294967295, -9223372036854775808, 18446744073709551615,
         -123456789012345678901234567890.0123456789, 1.5e300, 0.25, '2024-02-29', '2024-02-29 23:59:59.123456',
         '-838:59:58.125', 2155, '2038-01-19 03:14:07.25', b'100000000001', x'00ff27', 'ä😀', 'long', 'y', 'p,q', '{\"a\":1}', 42),
        (null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
         null, null, null, null, null),
        (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, '', '', '', 0, '', '[]', 0),
        (1, 1, 1, 1, 1, 9223372036854775807, 9223372036854775808, 0.1, -0.1, -1e10, '9999-12-31', '1000-01-01', '01:02:03.5', 1901,
         '1970-01-02 00:00:00', 1, 'a', 'b', 'c', 'x', 'p', '1', 99999)";
    rows(&mut conn, insert).await.unwrap();
    let text = rows(&mut conn, "select * from test.types where 1 = 1").await.unwrap();
    let binary = rows_with(&mut conn, b"select * from test.types where 1 = ?", &[Param::Int(1)]).await.unwrap();
    assert_eq!(text, binary);
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("-128,255,-32768,-8388608,4294967295,-9223372036854775808,18446744073709551615,"),
        "{first}"
    );
    assert!(first.contains("-123456789012345678901234567890.0123456789,1.5e300,0.25,2024-02-29,"), "{first}");
    assert!(first.contains(",2024-02-29 23:59:59.123456,-838:59:58.125,2155,2038-01-19 03:14:07.25,"), "{first}");
    assert!(text.contains("0000-00-00,0000-00-00 00:00:00.000000,00:00:00.000,0000,0000-00-00 00:00:00.00,"), "{text}");
    assert!(first.ends_with(",00042"), "{first}");
}

#[tokio::test]
async fn parameters_of_all_kinds_come_back() {
    let mut conn = native().await;
    let all: Vec<u8> = (0..=255).collect();
    let params = [
        Param::Null,
        Param::Int(i64::MIN),
        Param::Uint(u64::MAX),
        Param::Double(0.1),
        Param::Bytes(Bytes::from_static(b"it's \\ \"quoted\"")),
        Param::Bytes(Bytes::from(all.clone())),
    ];
    let sql = "select ?, ?, ?, ?, ?, hex(?)";
    let hex: String = all.iter().map(|byte| format!("{byte:02X}")).collect();
    let expected = format!(",-9223372036854775808,18446744073709551615,0.1,\"it's \\ \"\"quoted\"\"\",{hex}\n");
    for _ in 0..3 {
        assert_eq!(rows_with(&mut conn, sql.as_bytes(), &params).await.unwrap(), expected);
    }
    let error = rows_with(&mut conn, sql.as_bytes(), &params[..2]).await.unwrap_err();
    assert_eq!(error.to_string(), "the statement takes 6 parameters, 2 were given (1210, HY000)");
    assert!(conn.is_idle());
}

#[tokio::test]
async fn prepared_statements_are_kept_and_closed() {
    let mut options = shared().user("native", "some_pass");
    options.statements_max = 2;
    let mut conn = connect(options).await;
    for round in 0..3 {
        for add in 0..5 {
            let sql = format!("select ? + {add}");
            let found = rows_with(&mut conn, sql.as_bytes(), &[Param::Int(round)]).await.unwrap();
            assert_eq!(found, format!("{}\n", round + add));
        }
    }
    let count = "select variable_value from information_schema.session_status where variable_name = ?";
    let param = [Param::Bytes(Bytes::from_static(b"com_stmt_close"))];
    assert_eq!(rows_with(&mut conn, count.as_bytes(), &param).await.unwrap(), "14\n");
    // The table changes under a statement.
    rows(&mut conn, "create temporary table test.r (a int)").await.unwrap();
    let sql = b"select * from test.r where 1 = ?";
    rows_with(&mut conn, sql, &[Param::Int(1)]).await.unwrap();
    rows(&mut conn, "alter table test.r add b int default 5").await.unwrap();
    rows(&mut conn, "insert into test.r (a) values (1)").await.unwrap();
    assert_eq!(rows_with(&mut conn, sql, &[Param::Int(1)]).await.unwrap(), "1,5\n");
}

#[tokio::test]
async fn batches() {
    let mut conn = native().await;
    let sql = "select 1; set @a = 2; select @a, 3 union select 4, 5; select 6 from dual where false";
    assert_eq!(rows(&mut conn, sql).await.unwrap(), "1\n0,,0,0\n2,3\n4,5\n");
    conn.send_query(b"select 1; select 2; selec").await.unwrap();
    let mut sink = csv();
    conn.read_result(&mut sink).await.unwrap();
    assert!(conn.has_more_results() && !conn.is_idle());
    assert!(conn.send_query(b"select 3").await.is_err());
    conn.read_result(&mut sink).await.unwrap();
    assert!(matches!(conn.read_result(&mut sink).await, Err(QueryError::Server(error)) if error.code == 1064));
    assert!(conn.is_idle() && !conn.has_more_results());
    assert_eq!(sink.out, b"1\n2\n");
    rows(&mut conn, "create or replace procedure test.p() begin select 1; select 2, 3; end").await.unwrap();
    assert_eq!(rows(&mut conn, "call test.p()").await.unwrap(), "1\n2,3\n0,,0,0\n");
    assert_eq!(rows(&mut conn, "select 7").await.unwrap(), "7\n");
    let mut options = shared().user("native", "some_pass");
    options.multi_statements = false;
    assert!(matches!(rows(&mut connect(options).await, "select 1; select 2").await, Err(QueryError::Server(_))));
}

async fn check_sizes(mut conn: Conn) {
    const MIB16: usize = 16 << 20;
    // Around the sizes where the packet of the statement, the row and the value reach a frame's limit.
    for len in [MIB16 - 30, MIB16 - 13, MIB16 - 6, MIB16 - 5, MIB16 - 2, MIB16 - 1, MIB16, MIB16 + 1, 2 * MIB16 + 3] {
        comes_through(&mut conn, len).await;
    }
    assert_eq!(rows(&mut conn, "select 1").await.unwrap(), "1\n");
}

#[tokio::test]
async fn packets_of_16_mib_and_more() {
    check_sizes(native().await).await;
}

#[tokio::test]
async fn packets_of_16_mib_and_more_compressed() {
    let mut options = shared().user("native", "some_pass");
    options.compress = true;
    let mut conn = connect(options).await;
    assert_eq!(rows(&mut conn, "show status like 'compression'").await.unwrap(), "Compression,ON\n");
    check_sizes(conn).await;
}

#[tokio::test]
async fn many_rows_through_all_channels() {
    let server = shared();
    let sql = "select seq, repeat('ab\"c', seq % 50) from seq_1_to_30000";
    let expected = {
        let lines = (1..=30000).map(|seq| match "ab\"c".repeat(seq % 50) {
            text if text.is_empty() => format!("{seq},\n"),
            text => format!("{seq},\"{}\"\n", text.replace('"', "\"\"")),
        });
        lines.collect::<String>()
    };
    let plain = server.user("native", "some_pass");
    let mut compressed = plain.clone();
    compressed.compress = true;
    let mut encrypted = plain.clone();
    encrypted.tls_mode = TlsMode::Required;
    let unverified = TlsOptions { verify: TlsVerify::None, ..TlsOptions::default() };
    encrypted.tls = Some(TlsClient::new(&unverified).unwrap());
    let mut both = encrypted.clone();
    both.compress = true;
    for mut options in [plain, compressed, encrypted, both, server.root()] {
        options.schema = "test".into();
        let mut conn = connect(options).await;
        assert!(rows(&mut conn, sql).await.unwrap() == expected);
        let found = rows_with(&mut conn, format!("{sql} where 1 = ?").as_bytes(), &[Param::Int(1)]).await.unwrap();
        assert!(found == expected);
    }
}

#[tokio::test]
async fn a_slow_receiver_is_waited_for() {
    let mut conn = native().await;
    let mut sink = Slow::new(csv().format);
    let sql = b"select seq from test.cats, seq_1_to_500 where id = 2 order by seq";
    conn.execute(Statement { sql, params: &[] }, &mut sink).await.unwrap_err();
    rows(&mut conn, "use test").await.unwrap();
    let sql = b"select seq from seq_1_to_500";
    conn.execute(Statement { sql, params: &[] }, &mut sink).await.unwrap();
    assert_eq!(sink.waits, 500);
    assert!(sink.inner.out.ends_with(b"499\n500\n"));
    let mut sink = Slow::new(csv().format);
    sink.close_after = 3;
    let result = conn.execute(Statement { sql, params: &[] }, &mut sink).await;
    assert!(matches!(result, Err(QueryError::SinkClosed(_))));
    assert!(!conn.is_idle());
}

#[tokio::test]
async fn time_outs() {
    let timeout = Some(Duration::from_millis(100));
    for (stage, sql) in [
        (Stage::SendQuery, "select sleep(5)"),
        (Stage::RecvColumns, "select 1; select sleep(5)"),
        (Stage::RecvRows, "select sleep(seq * 5 - 5), repeat('x', 100000) from test.seq_1_to_2"),
        (Stage::Query, "select sleep(5)"),
    ] {
        let mut options = shared().user("native", "some_pass");
        options.schema = "test".into();
        let timeouts = &mut options.timeouts;
        match stage {
            Stage::SendQuery => timeouts.send_query = timeout,
            Stage::RecvColumns => timeouts.recv_columns = timeout,
            Stage::RecvRows => timeouts.recv_rows = timeout,
            _ => timeouts.query = timeout,
        }
        let mut conn = connect(options).await;
        assert_eq!(rows(&mut conn, "select 1").await.unwrap(), "1\n");
        match rows(&mut conn, sql).await {
            Err(QueryError::Timeout { stage: found }) => assert_eq!(found, stage),
            other => panic!("{stage:?}: {other:?}"),
        }
        assert!(!conn.is_idle());
    }
}

/// A time-out before the first word of a result takes nothing away: the result can be waited for again.
#[tokio::test]
async fn waiting_on_after_a_time_out() {
    let mut conn = native().await;
    let hasty = Timeouts { send_query: Some(Duration::from_millis(50)), ..Timeouts::default() };
    conn.set_timeouts(hasty);
    conn.send_query(b"select sleep(2), 'late'; select 2").await.unwrap();
    let mut sink = csv();
    for _ in 0..2 {
        assert!(matches!(conn.read_result(&mut sink).await, Err(QueryError::Timeout { .. })));
        assert!(conn.has_more_results() && !conn.is_idle() && conn.is_abandoned());
        assert!(conn.send_query(b"select 1").await.is_err());
    }
    conn.set_timeouts(Timeouts::default());
    conn.read_result(&mut sink).await.unwrap();
    conn.read_result(&mut sink).await.unwrap();
    assert_eq!(sink.out, b"0,late\n2\n");
    assert_eq!(rows(&mut conn, "select 3").await.unwrap(), "3\n");
}

#[tokio::test]
async fn an_abandoned_statement_makes_the_connection_unusable() {
    let mut conn = native().await;
    let run = rows(&mut conn, "select sleep(5)");
    assert!(tokio::time::timeout(Duration::from_millis(50), run).await.is_err());
    assert!(!conn.is_idle() && !conn.is_open());
    let error = rows(&mut conn, "select 1").await.unwrap_err();
    assert!(error.to_string().ends_with("the statement before was abandoned"), "{error}");
}

#[tokio::test]
async fn killed_connections_are_noticed() {
    let mut victim = native().await;
    let mut killer = native().await;
    assert!(victim.is_open());
    rows(&mut killer, &format!("kill {}", victim.thread_id())).await.unwrap();
    for _ in 0..6000 {
        if !victim.is_open() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!victim.is_open());
    let mut victim = native().await;
    let id = victim.thread_id();
    let kill = format!("kill query {id}");
    let running =
        format!("select count(*) from information_schema.processlist where id = {id} and info like 'select sleep%'");
    let (result, killed) = tokio::join!(rows(&mut victim, "select sleep(600)"), async {
        while rows(&mut killer, &running).await.unwrap() != "1\n" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        rows(&mut killer, &kill).await
    });
    killed.unwrap();
    assert!(matches!(result, Err(QueryError::Server(error)) if error.code == 1317));
    assert!(victim.is_idle());
}

#[tokio::test]
async fn local_files_are_refused() {
    let mut conn = native().await;
    rows(&mut conn, "create temporary table test.f (a text)").await.unwrap();
    let result = rows(&mut conn, "load data local infile '/etc/passwd' into table test.f").await;
    assert!(matches!(result, Err(QueryError::Server(_))), "{result:?}");
    assert_eq!(rows(&mut conn, "select count(*) from test.f").await.unwrap(), "0\n");
}

#[tokio::test]
async fn pings_and_resets() {
    let mut options = shared().user("native", "some_pass");
    options.schema = "test".into();
    options.charset = "latin1".into();
    options.init = vec!["set @init = 1".into()];
    let mut conn = connect(options).await;
    conn.ping().await.unwrap();
    let spoil = "set @a = 1; use mysql; set names utf8; create temporary table test.gone (a int); begin";
    let look = "select @a, @init, database(), @@character_set_results, @@in_transaction";
    for pipelined in [false, true] {
        rows(&mut conn, spoil).await.unwrap();
        assert!(conn.in_transaction());
        if pipelined {
            conn.reset_before_next();
            assert!(!conn.needs_reset_now());
        } else {
            conn.reset().await.unwrap();
        }
        assert_eq!(rows(&mut conn, look).await.unwrap(), ",1,test,latin1,0\n");
        assert!(rows(&mut conn, "select * from test.gone").await.is_err());
    }
    // A statement that was prepared before is prepared anew.
    let sql = b"select id from cats where id = ?";
    for _ in 0..2 {
        assert_eq!(rows_with(&mut conn, sql, &[Param::Int(3)]).await.unwrap(), "3\n");
        rows(&mut conn, "set @a = 1").await.unwrap();
        conn.reset_before_next();
    }
}
