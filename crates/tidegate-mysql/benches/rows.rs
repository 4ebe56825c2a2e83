//! What a row costs: from the packets of a result of 1000 rows to JSON, CSV and RDS, in memory.
//!
//! With `TIDEGATE_MYSQL_SOCKET` set to the socket of a server that lets `root` in, also what a statement costs this
//! process, without the server: CPU time of `select` of one row, and of 1000.
//!
//! `cargo bench -p tidegate-mysql`

use std::{hint::black_box, sync::Arc};

use tidegate_mysql::{Address, Conn, ConnectOptions, rows, wire::put_lenenc_bytes};
use tidegate_rows::{
    Column, ColumnType, Execute, Format, Param, Sink, Statement, Summary,
    csv::{Csv, CsvOptions},
    json::{Json, JsonOptions},
    rds::Rds,
    sink::Collect,
};

const ROWS: usize = 1000;

/// Rows like those of MySQL's example table `City`.
fn packets() -> Vec<Vec<u8>> {
    let row = |id: usize| {
        let mut out = Vec::new();
        let name = format!("Name of a city {id}");
        let population = (id * 7919).to_string();
        for value in [&id.to_string(), &name, "NLD", "Noord-Holland", &population] {
            put_lenenc_bytes(&mut out, value.as_bytes());
        }
        out
    };
    (1..=ROWS).map(row).collect()
}

fn columns() -> Vec<Column> {
    let column = |name: &str, kind| Column::expression(name.as_bytes(), kind);
    vec![
        column("ID", ColumnType::Long),
        column("Name", ColumnType::String),
        column("CountryCode", ColumnType::String),
        column("District", ColumnType::String),
        column("Population", ColumnType::Long),
    ]
}

fn measure(name: &str, rounds: usize, mut run: impl FnMut() -> usize) {
    // The best of ten: other processes only add.
    let mut best = f64::MAX;
    let mut bytes = 0;
    for _ in 0..10 {
        let begin = cpu_time();
        for _ in 0..rounds / 10 + 1 {
            bytes = run();
        }
        best = best.min((cpu_time() - begin) * 1e6 / (rounds / 10 + 1) as f64);
    }
    println!("{name:<28} {best:>9.2} us of CPU, {bytes:>7} bytes, {:>6.0} MB/s", bytes as f64 / best);
}

fn write<F: Format>(format: F, columns: &[Column], packets: &[Vec<u8>], out: Vec<u8>) -> Vec<u8> {
    let mut sink = Collect { format, out };
    sink.columns(columns);
    for packet in packets {
        let _ = black_box(rows::text(black_box(packet), columns.len(), &mut sink));
    }
    sink.end_result(&Summary::default());
    sink.out
}

fn formats(rounds: usize) {
    let (packets, columns, options) = (packets(), columns(), JsonOptions::default());
    let mut out = Vec::new();
    let mut step = |name: &str, write: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        measure(name, rounds, || {
            let mut buf = std::mem::take(&mut out);
            buf.clear();
            out = write(buf);
            out.len()
        });
    };
    step("json, 1000 rows", &|out| write(Json::new(&options), &columns, &packets, out));
    step("csv, 1000 rows", &|out| write(Csv::new(CsvOptions::default()), &columns, &packets, out));
    step("rds, 1000 rows", &|out| write(Rds::default(), &columns, &packets, out));
}

/// CPU time of this process so far, in seconds.
fn cpu_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

async fn statements(socket: &str, rounds: usize) {
    let mut options = ConnectOptions::new(Address::Unix(socket.into()), "root", "");
    options.schema = std::env::var("TIDEGATE_MYSQL_SCHEMA").unwrap_or_default();
    let mut conn = Conn::connect(Arc::new(options)).await.expect("a server");
    let json = JsonOptions::default();
    let one = "select 1 as ID, 'Kabul' as Name, 'AFG' as CountryCode, 'Kabol' as District, 1780000 as Population";
    let many = format!(
        "with recursive n (ID) as (select 1 union all select ID + 1 from n where ID < {ROWS}) \
         select ID, concat('Name of a city ', ID) as Name, 'NLD' as CountryCode, 'Noord-Holland' as District, \
         ID * 7919 as Population from n"
    );
    let prepared = "select ? as ID, 'Kabul' as Name, 'AFG' as CountryCode, 'Kabol' as District, 1780000 as Population";
    let mut out = Vec::new();
    let id = [Param::Int(1)];
    for (name, sql, params, rounds) in [
        ("one row", one, &[][..], rounds),
        ("one row, prepared", prepared, &id[..], rounds),
        ("1000 rows", &many, &[][..], rounds / 50),
    ] {
        let begin = cpu_time();
        for _ in 0..rounds {
            out.clear();
            let mut sink = Collect { format: Json::new(&json), out };
            conn.execute(Statement { sql: sql.as_bytes(), params }, &mut sink).await.expect("rows");
            out = sink.out;
        }
        let micros = (cpu_time() - begin) * 1e6 / rounds as f64;
        println!("{name:<28} {micros:>9.2} us of CPU, {:>7} bytes", out.len());
    }
}

fn main() {
    // Without `--bench` this is a test: that it runs.
    let rounds = if std::env::args().any(|arg| arg == "--bench") { 2000 } else { 1 };
    formats(rounds);
    if let Ok(socket) = std::env::var("TIDEGATE_MYSQL_SOCKET") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(statements(&socket, rounds * 10));
    }
}
