//! What a client that has logged in is answered.

use std::{future::poll_fn, io, ops::Range, pin::pin, task::Poll};

use bytes::Bytes;
use tidegate_rows::{Column, ColumnType, Format, Param, QueryError, ServerError, Statement, Summary};

use super::{
    Backend, Description, Frames, Next, Server, Transport, bulk,
    command::Command,
    cursor::CursorResults,
    line::{Line, Results, poll_ahead},
    put,
    statements::{self, Execution},
    upload::Upload,
};
use crate::{
    answer::{self, status},
    binary_results::BinaryResults,
    handshake::capability,
    text_results::TextResults,
    wire::{Malformed, NULL},
};

impl<B: Backend> Server<B> {
    /// Answers a command.
    pub(super) async fn command(
        &mut self,
        io: &impl Transport,
        taken: Range<usize>,
        sequence: u8,
    ) -> io::Result<Result<Next, Malformed>> {
        // The statement that runs borrows its packet; what comes meanwhile is kept apart.
        let Some(input) = self.input.take() else { return Ok(Ok(Next::Read)) };
        let command = match Command::read(input.payload(taken)) {
            Ok(Command::Quit) => return Ok(Ok(Next::Close)),
            Ok(Command::ChangeUser(packet)) => {
                let step = self.login.change_user(packet);
                self.input = Some(input);
                return Ok(step.map(|step| self.step(step, sequence)));
            }
            Ok(command) => command,
            Err(error) => {
                self.input = Some(input);
                return Ok(Err(error));
            }
        };
        let mut ahead = Vec::new();
        self.answer_command(io, &mut ahead, command, sequence).await?;
        self.input = Some(input);
        let behind = std::mem::take(&mut self.behind_file);
        if !behind.is_empty() {
            // These have come out of their frames already.
            Frames::None.pass(&behind, self.buffer(), &Line::default());
        }
        self.give(&ahead);
        Ok(Ok(Next::Again))
    }

    async fn answer_command(
        &mut self,
        io: &impl Transport,
        ahead: &mut Vec<u8>,
        command: Command<'_>,
        mut sequence: u8,
    ) -> io::Result<()> {
        match command {
            Command::Query(sql) => {
                let results = self.text_results(sequence);
                let sql = &*self.backend.decoded(sql);
                self.run(io, ahead, Statement { sql, params: &[] }, results).await?;
            }
            Command::Execute { id, wants_cursor, rest } => {
                match self.statements.execution(id, rest, |text| self.backend.decoded(text)) {
                    Ok(mut execution) => {
                        self.backend.prepared_in(std::mem::take(&mut execution.context));
                        if wants_cursor {
                            self.execute_with_cursor(io, ahead, id, &execution, sequence).await?;
                        } else {
                            self.execute(io, ahead, &execution.sql, &execution.params, sequence).await?;
                        }
                    }
                    Err(error) => self.put_result(Err(error), sequence),
                }
            }
            Command::BulkExecute { id, has_types, rest } => {
                self.execute_bulk(io, ahead, (id, has_types, rest), sequence).await?;
            }
            Command::Fetch { id, rows } => self.fetch(id, rows, sequence),
            Command::ProcessInfo => {
                let results = self.text_results(sequence);
                self.run(io, ahead, Statement { sql: b"SHOW PROCESSLIST", params: &[] }, results).await?;
            }
            Command::Prepare(sql) => {
                let sql = self.backend.decoded(sql);
                self.prepare(&sql, sequence).await
            }
            Command::FieldList { table, pattern } => {
                let (table, pattern) = (self.backend.decoded(table), self.backend.decoded(pattern));
                self.list_fields(&table, &pattern, sequence).await
            }
            Command::Statistics => {
                let text = self.backend.statistics();
                put(&self.line, &mut sequence, |out| out.extend_from_slice(text.as_bytes()));
            }
            command => self.simple_command(command, sequence),
        }
        Ok(())
    }

    /// Answers a command that needs nobody's time.
    fn simple_command(&mut self, command: Command<'_>, sequence: u8) {
        let result = match command {
            Command::InitDb(name) => {
                let name = self.backend.decoded(name);
                self.backend.change_schema(&name)
            }
            Command::ProcessKill(id) => self.backend.kill(u64::from(id)),
            Command::Ping => Ok(()),
            Command::ResetConnection => {
                self.backend.reset();
                self.backend.set_multi_statements(self.has(capability::MULTI_STATEMENTS));
                self.statements.clear();
                Ok(())
            }
            Command::SetOption { multi_statements } => {
                self.backend.set_multi_statements(multi_statements);
                return self.put_eof(sequence);
            }
            Command::Nothing { ends_with_eof: true } => return self.put_eof(sequence),
            Command::Nothing { ends_with_eof: false } => Ok(()),
            Command::LongData { id, index, part } => {
                let bytes_max = self.backend.packet_bytes_max();
                return self.statements.add_long_data(id, index, part, bytes_max);
            }
            Command::Close(id) => return self.statements.remove(id),
            Command::Reset(id) => self.statements.reset(id),
            _ => Err(ServerError::new(1047, b"08S01", "Unknown command")),
        };
        self.put_result(result, sequence);
    }

    fn put_eof(&self, mut sequence: u8) {
        let summary = Summary { status: self.backend.status(), ..Summary::default() };
        let deprecate_eof = self.has(capability::DEPRECATE_EOF);
        put(&self.line, &mut sequence, |out| answer::put_end_of_rows(out, &summary, deprecate_eof));
    }

    async fn execute(
        &mut self,
        io: &impl Transport,
        ahead: &mut Vec<u8>,
        sql: &[u8],
        params: &[Param],
        sequence: u8,
    ) -> io::Result<()> {
        let results = BinaryResults::new(self.text_results(sequence));
        self.run(io, ahead, Statement { sql, params }, results).await
    }

    /// Runs a prepared statement whose client wants to fetch the rows in parts.
    async fn execute_with_cursor(
        &mut self,
        io: &impl Transport,
        ahead: &mut Vec<u8>,
        id: u32,
        Execution { sql, params, .. }: &Execution,
        sequence: u8,
    ) -> io::Result<()> {
        let format = BinaryResults::new(self.text_results(sequence));
        let packet_bytes_max = self.backend.packet_bytes_max();
        let bytes_max = packet_bytes_max.saturating_sub(self.statements.cursor_bytes());
        let deprecate_eof = self.has(capability::DEPRECATE_EOF);
        let upload = Upload::default();
        let results = Results { line: &self.line, format, upload: None, packet_bytes_max };
        let mut results = CursorResults::new(results, bytes_max, deprecate_eof);
        let run = self.backend.execute(Statement { sql, params }, &mut results);
        let ran = drive(run, (&mut self.frames, &self.line, ahead), &upload, io).await?;
        let CursorResults { results, cursor, .. } = results;
        let mut sequence = results.format.next_number();
        match (ran, cursor) {
            (Err(error), _) => self.put_error(&error, &mut sequence),
            (Ok(()), Some(cursor)) => self.statements.keep_cursor(id, cursor),
            (Ok(()), None) => {}
        }
        Ok(())
    }

    /// COM_STMT_BULK_EXECUTE.
    async fn execute_bulk(
        &mut self,
        io: &impl Transport,
        ahead: &mut Vec<u8>,
        (id, has_types, packet): (u32, bool, &[u8]),
        sequence: u8,
    ) -> io::Result<()> {
        let (Execution { sql, context, .. }, rows) = match self.statements.bulk(id, has_types, packet) {
            Ok(bulk) => bulk,
            Err(error) => {
                self.put_result(Err(error), sequence);
                return Ok(());
            }
        };
        let format = BinaryResults::new(self.text_results(sequence));
        let packet_bytes_max = self.backend.packet_bytes_max();
        let upload = Upload::default();
        let mut results = Results { line: &self.line, format, upload: None, packet_bytes_max };
        let run = bulk::run(&mut self.backend, &sql, &context, rows, &mut results);
        let ran = drive(run, (&mut self.frames, &self.line, ahead), &upload, io).await?;
        let mut sequence = results.format.next_number();
        if let Err(error) = ran {
            self.put_error(&error, &mut sequence);
        }
        Ok(())
    }

    /// COM_STMT_FETCH.
    fn fetch(&mut self, id: u32, rows: u32, mut sequence: u8) {
        let mut packets = Vec::new();
        match self.statements.fetch(id, rows, &mut sequence, &mut packets) {
            Ok(has_ended) => {
                self.line.add(|out| out.extend_from_slice(&packets));
                let more = if has_ended { status::LAST_ROW_SENT } else { status::CURSOR_EXISTS };
                let summary = Summary { status: self.backend.status() | more, ..Summary::default() };
                let deprecate_eof = self.has(capability::DEPRECATE_EOF);
                put(&self.line, &mut sequence, |out| answer::put_end_of_rows(out, &summary, deprecate_eof));
            }
            Err(error) => self.put_result(Err(error), sequence),
        }
    }

    /// Runs a statement. Meanwhile its results are sent, and what the client sends ahead is read; a client that leaves ends it.
    async fn run<F: Format + Numbered>(
        &mut self,
        io: &impl Transport,
        ahead: &mut Vec<u8>,
        statement: Statement<'_>,
        format: F,
    ) -> io::Result<()> {
        let sends_files = self.has(capability::LOCAL_FILES);
        let packet_bytes_max = self.backend.packet_bytes_max();
        let upload = Upload::default();
        let mut results =
            Results { line: &self.line, format, upload: sends_files.then_some(&upload), packet_bytes_max };
        let run = self.backend.execute(statement, &mut results);
        let ran = drive(run, (&mut self.frames, &self.line, ahead), &upload, io).await?;
        let mut sequence = results.format.next_number();
        if upload.has_begun() {
            sequence = upload.sequence();
            self.behind_file = upload.take_rest();
        }
        if let Err(error) = ran {
            self.put_error(&error, &mut sequence);
        }
        Ok(())
    }

    async fn describe(&mut self, sql: &[u8]) -> Result<Description, ServerError> {
        match self.backend.describe(sql).await {
            Ok(description) => Ok(description),
            Err(QueryError::Server(error)) => Err(error),
            Err(error) => Err(ServerError::new(1105, b"HY000", error.to_string())),
        }
    }

    /// COM_STMT_PREPARE.
    ///
    /// ```text
    /// 0 | number u32 | columns u16 | parameters u16 | 0 | warnings u16
    /// definitions of the parameters, EOF | definitions of the columns, EOF; each only if there are any
    /// ```
    async fn prepare(&mut self, sql: &[u8], mut sequence: u8) {
        let described = self.describe(sql).await.and_then(|mut description| {
            if description.params > statements::PARAMS_MAX {
                let message = "Prepared statement contains too many placeholders";
                return Err(ServerError::new(1390, b"HY000", message));
            }
            let context = std::mem::take(&mut description.context);
            let id = self.statements.insert(Bytes::copy_from_slice(sql), description.params, context)?;
            Ok((id, description))
        });
        let (id, Description { params, columns, .. }) = match described {
            Ok(described) => described,
            Err(error) => {
                self.statements.note_failure();
                return self.put_result(Err(error), sequence);
            }
        };
        put(&self.line, &mut sequence, |out| {
            out.push(0);
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&(columns.len() as u16).to_le_bytes());
            out.extend_from_slice(&(params as u16).to_le_bytes());
            out.extend_from_slice(&[0; 3]);
        });
        let param = Column::expression(*b"?", ColumnType::VarString);
        self.put_definitions((0..params).map(|_| &param), &mut sequence);
        self.put_definitions(columns.iter(), &mut sequence);
    }

    fn put_definitions<'a>(&self, columns: impl ExactSizeIterator<Item = &'a Column>, sequence: &mut u8) {
        if columns.len() == 0 {
            return;
        }
        let results = self.text_results(*sequence);
        for column in columns {
            put(&self.line, sequence, |out| results.put_column(out, column));
        }
        if !self.has(capability::DEPRECATE_EOF) {
            let summary = Summary { status: self.backend.status(), ..Summary::default() };
            put(&self.line, sequence, |out| answer::put_end_of_rows(out, &summary, false));
        }
    }

    /// COM_FIELD_LIST: definitions, each with a default value behind it, and an EOF packet.
    async fn list_fields(&mut self, table: &[u8], pattern: &[u8], mut sequence: u8) {
        let sql = [&b"SELECT * FROM `"[..], &escaped(table), b"` LIMIT 0"].concat();
        let columns = match self.describe(&sql).await {
            Ok(description) => description.columns,
            Err(error) => return self.put_result(Err(error), sequence),
        };
        let results = self.text_results(sequence);
        for column in columns.iter().filter(|column| pattern.is_empty() || is_like(&column.name, pattern)) {
            put(&self.line, &mut sequence, |out| {
                results.put_column(out, column);
                out.push(NULL);
            });
        }
        self.put_eof(sequence);
    }
}

/// A name as it stands within backticks.
fn escaped(name: &[u8]) -> Vec<u8> {
    name.iter().flat_map(|byte| std::iter::repeat_n(*byte, if *byte == b'`' { 2 } else { 1 })).collect()
}

/// Whether a name is like a pattern of `%` and `_`, in any case. Only the last `%` is ever taken up again, so that no pattern
/// takes longer than its length times that of the name.
fn is_like(name: &[u8], pattern: &[u8]) -> bool {
    let (mut at, mut in_pattern) = (0, 0);
    let mut again: Option<(usize, usize)> = None;
    loop {
        match (pattern.get(in_pattern), name.get(at)) {
            (Some(b'%'), _) => {
                again = Some((at, in_pattern + 1));
                in_pattern += 1;
            }
            (Some(wanted), Some(byte)) if *wanted == b'_' || wanted.eq_ignore_ascii_case(byte) => {
                (at, in_pattern) = (at + 1, in_pattern + 1);
            }
            (None, None) => return true,
            _ => match again {
                Some((from, behind)) if from < name.len() => {
                    again = Some((from + 1, behind));
                    (at, in_pattern) = (from + 1, behind);
                }
                _ => return false,
            },
        }
    }
}

/// Waits for a statement. Meanwhile its results are sent, and what the client sends is read: the file that the statement has asked for, or
/// commands ahead.
///
/// # Errors
/// The client has left, and with it the statement.
async fn drive(
    run: impl Future<Output = Result<(), QueryError>>,
    (frames, line, ahead): (&mut Frames, &Line, &mut Vec<u8>),
    upload: &Upload,
    io: &impl Transport,
) -> io::Result<Result<(), ServerError>> {
    let ran = {
        let mut run = pin!(run);
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(ran) = run.as_mut().poll(cx) {
                    return Poll::Ready(Ok(ran));
                }
                if line.is_due() {
                    let waited = line.has_waiter();
                    if let Poll::Ready(Err(error)) = line.poll_send(io, cx) {
                        return Poll::Ready(Err(error));
                    }
                    if waited && !line.has_waiter() {
                        continue;
                    }
                }
                let read = if upload.is_open() {
                    upload.poll_fill(io, (&mut *frames, line, &mut *ahead), cx)
                } else {
                    poll_ahead(io, ahead, cx)
                };
                return match read {
                    Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                    _ => Poll::Pending,
                };
            }
        })
        .await?
    };
    if upload.is_open() {
        poll_fn(|cx| upload.poll_drain(io, (&mut *frames, line, &mut *ahead), cx)).await?;
    }
    Ok(match ran {
        Ok(()) => Ok(()),
        Err(QueryError::Server(error)) => Err(error),
        Err(QueryError::SinkClosed(_)) => return Err(io::ErrorKind::BrokenPipe.into()),
        Err(error) => Err(ServerError::new(1105, b"HY000", error.to_string())),
    })
}

/// A notation in packets that are counted.
pub(super) trait Numbered {
    /// Number of the next packet.
    fn next_number(&self) -> u8;
    /// The next packet has this number.
    fn count_from(&mut self, sequence: u8);
}

impl Numbered for TextResults {
    fn next_number(&self) -> u8 {
        self.sequence
    }
    fn count_from(&mut self, sequence: u8) {
        self.sequence = sequence;
    }
}

impl Numbered for BinaryResults {
    fn next_number(&self) -> u8 {
        self.sequence()
    }
    fn count_from(&mut self, sequence: u8) {
        self.count_from(sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_like_a_pattern() {
        for (name, pattern, expected) in [
            ("name", "n%", true),
            ("name", "%", true),
            ("name", "N_me", true),
            ("name", "n_e", false),
            ("name", "%m%", true),
            ("", "%", true),
            ("name", "", false),
            ("name", "name_", false),
            ("aab", "%ab", true),
            ("abab", "%ab_", false),
            ("", "", true),
        ] {
            assert_eq!(is_like(name.as_bytes(), pattern.as_bytes()), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn a_long_pattern_takes_no_longer() {
        assert!(!is_like(&[b'a'; 64], &b"%a".repeat(1000)));
    }

    #[test]
    fn names_in_backticks() {
        assert_eq!(escaped(b"a`b"), b"a``b");
    }
}
