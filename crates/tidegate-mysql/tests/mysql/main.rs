//! The client against a real MySQL 8 or 9, where there is one: the program that `TIDEGATE_MYSQLD` names, else an
//! installed `mysqld` that is not MariaDB's. Without one each test says so and passes; `docs/testing.md` tells more.

mod login;
mod queries;
mod server;
#[path = "../mariadb/sinks.rs"]
#[expect(dead_code, reason = "MariaDB's tests use the rest")]
mod sinks;
