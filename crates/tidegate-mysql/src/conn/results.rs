//! What a server answers to a statement: results, row by row, into a sink.

use std::task::{Context, Poll};

use tidegate_rows::{Column, Flow, QueryError, Row, ServerError, Sink, SinkClosed, Stage, Summary};

use super::{COM_STMT_CLOSE, COM_STMT_PREPARE, Conn, Protocol};
use crate::{
    answer,
    channel::Channel,
    rows,
    statements::Prepared,
    wire::{Malformed, Reader},
};

/// More columns than any server returns: the protocol's count of 16 bits elsewhere.
const COLUMNS_MAX: u64 = 0xffff;
/// ER_NOT_ALLOWED_COMMAND.
const NOT_ALLOWED_COMMAND: u16 = 1148;

impl Conn {
    /// Reads the answers to the commands of [`put_reset`](Self::put_reset). Any error there is the end of the
    /// connection, since the statement behind them has run in a session that is not what it should be.
    pub(super) async fn skip_answers(&mut self) -> Result<(), QueryError> {
        while self.answers_before > 0 {
            self.channel.input.sequence = 1;
            loop {
                let fatal = |error, channel: &Channel| match error {
                    QueryError::Server(error) => channel.protocol(format_args!("cannot reset the session: {error}")),
                    other => other,
                };
                let summary = self.one_result(Protocol::Text, &mut Nowhere).await;
                if !summary.map_err(|error| fatal(error, &self.channel))?.more_results {
                    break;
                }
            }
            self.answers_before -= 1;
        }
        self.channel.input.sequence = self.answer_sequence;
        self.channel.begin_statement();
        Ok(())
    }

    pub(super) async fn prepare(&mut self, sql: &[u8]) -> Result<Prepared, QueryError> {
        self.answer_sequence = self.channel.put_command(&[&[COM_STMT_PREPARE], sql]);
        self.channel.flush(Stage::SendQuery).await?;
        self.channel.input.sequence = self.answer_sequence;
        if self.answers_before > 0 {
            self.skip_answers().await?;
        }
        let at = self.channel.first_packet().await?;
        let packet = self.channel.input.payload(at);
        if packet.first() == Some(&answer::ERR) {
            return Err(answer::error(packet).into());
        }
        let prepared = Prepared::read(packet).map_err(|error| self.channel.malformed(error))?;
        for count in [prepared.params, prepared.columns] {
            for _ in 0..count {
                let at = self.channel.packet(Stage::RecvColumns).await?;
                // The definitions come again with each result: here they only must be some.
                answer::column(self.channel.input.payload(at)).map_err(|error| self.channel.malformed(error))?;
            }
            if count > 0 {
                self.end_of_columns().await?;
            }
        }
        if let Some(gone) = self.statements.insert(sql, prepared) {
            self.channel.put_command(&[&[COM_STMT_CLOSE], &gone.id.to_le_bytes()]);
        }
        Ok(prepared)
    }

    pub(super) async fn result<S: Sink>(&mut self, sink: &mut S) -> Result<Summary, QueryError> {
        if self.answers_before > 0 {
            Box::pin(self.skip_answers()).await?;
        }
        self.one_result(self.protocol, sink).await
    }

    async fn one_result<S: Sink>(&mut self, protocol: Protocol, sink: &mut S) -> Result<Summary, QueryError> {
        let at = self.channel.first_packet().await?;
        // The answer to a reset that travelled in front is not yet the statement's own.
        self.result_begun = self.answers_before == 0;
        let packet = self.channel.input.payload(at);
        match packet.first() {
            Some(&answer::OK) => {
                let summary = answer::ok(packet).map_err(|error| self.channel.malformed(error))?;
                sink.end_result(&summary);
                Ok(summary)
            }
            Some(&answer::ERR) => Err(answer::error(packet).into()),
            Some(&answer::LOCAL_INFILE) => Err(Box::pin(self.refuse_file()).await?.into()),
            _ => {
                let mut reader = Reader(packet);
                let count = reader.lenenc().map_err(|error| self.channel.malformed(error))?;
                if !reader.is_empty() {
                    return Err(self.channel.malformed(Malformed("more than a count of columns")));
                }
                self.result_set(count, protocol, sink).await
            }
        }
    }

    async fn result_set<S: Sink>(
        &mut self,
        count: u64,
        protocol: Protocol,
        sink: &mut S,
    ) -> Result<Summary, QueryError> {
        if !(1..=COLUMNS_MAX).contains(&count) {
            return Err(self.channel.protocol(format_args!("a result of {count} columns")));
        }
        let count = count as usize;
        for index in 0..count {
            let at = self.channel.packet(Stage::RecvColumns).await?;
            let set = self.columns.set(index, count, self.channel.input.payload(at));
            set.map_err(|error| self.channel.malformed(error))?;
        }
        self.end_of_columns().await?;
        sink.columns(self.columns.columns());
        let summary = self.rows(protocol, sink).await?;
        sink.end_result(&summary);
        Ok(summary)
    }

    /// Reads the packet with which older servers end definitions of columns.
    async fn end_of_columns(&mut self) -> Result<(), QueryError> {
        if self.deprecate_eof {
            return Ok(());
        }
        let at = self.channel.packet(Stage::RecvColumns).await?;
        if answer::ends_rows(self.channel.input.payload(at)) {
            return Ok(());
        }
        Err(self.channel.protocol("no end of the columns"))
    }

    async fn rows<S: Sink>(&mut self, protocol: Protocol, sink: &mut S) -> Result<Summary, QueryError> {
        let columns = self.columns.columns();
        loop {
            while let Some(at) = self.channel.try_packet()? {
                let packet = self.channel.input.payload(at);
                match packet.first() {
                    Some(&answer::EOF) if answer::ends_rows(packet) => {
                        let summary = answer::end_of_rows(packet, self.deprecate_eof);
                        return summary.map_err(|error| self.channel.malformed(error));
                    }
                    Some(&answer::ERR) => return Err(answer::error(packet).into()),
                    _ => {}
                }
                let flow = match protocol {
                    Protocol::Text => rows::text(packet, columns.len(), sink),
                    Protocol::Binary => rows::binary(packet, columns, sink),
                };
                if flow.map_err(|error| self.channel.malformed(error))? == Flow::Full {
                    self.channel.ready(sink).await?;
                }
            }
            self.channel.fill(Stage::RecvRows).await?;
        }
    }

    /// The server wants a file of this machine (`LOAD DATA LOCAL INFILE`): it gets an empty one, and the statement an
    /// error.
    #[cold]
    async fn refuse_file(&mut self) -> Result<ServerError, QueryError> {
        if self.channel.compressed.is_some() {
            return Err(self.channel.protocol("LOAD DATA LOCAL INFILE is not allowed"));
        }
        self.channel.put_next(&[]);
        self.channel.flush(Stage::SendQuery).await?;
        let at = self.channel.packet(Stage::RecvColumns).await?;
        let packet = self.channel.input.payload(at);
        if packet.first() == Some(&answer::OK) && answer::ok(packet).is_ok_and(|summary| summary.more_results) {
            return Err(self.channel.protocol("LOAD DATA LOCAL INFILE is not allowed"));
        }
        Ok(ServerError::new(NOT_ALLOWED_COMMAND, b"42000", "LOAD DATA LOCAL INFILE is not allowed"))
    }
}

/// How many sets of columns a connection remembers.
const COLUMN_SETS_MAX: usize = 16;

/// The columns of results that were read before, with the packets that they came in: a statement that runs again finds
/// them parsed.
#[derive(Debug, Default)]
pub(super) struct ColumnCache {
    sets: Vec<ColumnSet>,
    /// Index of the set of the result under way.
    current: usize,
    /// Index of the set that goes next when there is no room.
    oldest: usize,
}

#[derive(Debug, Default)]
struct ColumnSet {
    packets: Vec<Box<[u8]>>,
    columns: Vec<Column>,
}

impl ColumnCache {
    /// Takes the definition of the next of `count` columns.
    fn set(&mut self, index: usize, count: usize, packet: &[u8]) -> Result<(), Malformed> {
        if index == 0 {
            self.choose(count, packet);
        }
        let set = &mut self.sets[self.current];
        if set.packets.get(index).is_some_and(|known| **known == *packet) {
            return Ok(());
        }
        set.packets.truncate(index);
        set.columns.truncate(index);
        set.columns.push(answer::column(packet)?);
        set.packets.push(packet.into());
        Ok(())
    }

    /// Makes the set of a result that begins with this column the current one.
    fn choose(&mut self, count: usize, first: &[u8]) {
        let fits = |set: &ColumnSet| set.packets.len() == count && *set.packets[0] == *first;
        self.current = match self.sets.iter().position(fits) {
            Some(known) => known,
            None if self.sets.len() < COLUMN_SETS_MAX => {
                self.sets.push(ColumnSet::default());
                self.sets.len() - 1
            }
            None => {
                let oldest = self.oldest;
                self.oldest = (oldest + 1) % COLUMN_SETS_MAX;
                self.sets[oldest] = ColumnSet::default();
                oldest
            }
        };
    }

    /// The columns of the result under way.
    fn columns(&self) -> &[Column] {
        self.sets.get(self.current).map_or(&[], |set| &set.columns)
    }
}

/// A sink that drops all results.
pub(crate) struct Nowhere;

impl Sink for Nowhere {
    fn columns(&mut self, _columns: &[Column]) {}
    fn row(&mut self, _: Row<'_>) -> Flow {
        Flow::More
    }
    fn end_result(&mut self, _summary: &Summary) {}
    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        Poll::Ready(Ok(()))
    }
}
