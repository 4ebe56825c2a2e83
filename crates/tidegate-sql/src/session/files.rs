//! SELECT … INTO OUTFILE and DUMPFILE.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use tidegate_rows::{Column, ColumnType, Flow, QueryError, Row, Sink, SinkClosed, Summary, Value, number};

use super::{Core, Res, loading::charset_of};
use crate::{
    env::Charset,
    errors,
    parse::files::{FileFormat, IntoFile},
    store::file_source::off_thread,
    translate::params::Text,
};

/// Bytes that are written at once.
const CHUNK_BYTES: usize = 256 << 10;

impl Core {
    /// Runs a query whose rows go into a file, which must not be there.
    ///
    /// # Errors
    /// The query's; 1086, 1290 and what the disk says about the file.
    pub(super) fn select_into_file(
        &mut self,
        query: Text<'_>,
        into: &IntoFile,
        more: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), QueryError> {
        let format = into.format.as_ref();
        if format.is_some_and(|format| format.field_end.is_empty() && format.enclosed.is_none()) {
            return Err(errors::unsupported("INTO OUTFILE with fields of fixed size").into());
        }
        let charset = charset_of(into.charset.as_deref())?;
        let (path, file) = self.new_file(&into.file)?;
        let mut rows = FileSink {
            format,
            charset,
            name: &into.file,
            file: Some(file),
            out: Vec::new(),
            texts: Vec::new(),
            first: true,
            rows: 0,
            failed: None,
        };
        let ran = self.run_part(query, false, &mut rows);
        let (count, failed) = (rows.rows, rows.failed.take());
        let ended = match failed {
            None => ran.and_then(|()| rows.write_out().map_err(QueryError::from)),
            Some(error) => Err(error.into()),
        };
        if let Err(error) = ended {
            // Half a file helps nobody.
            let _ = off_thread(move || std::fs::remove_file(path));
            return Err(error);
        }
        self.ok(count, more, sink);
        Ok(())
    }

    /// A file that is not there yet.
    fn new_file(&self, name: &str) -> Res<(PathBuf, File)> {
        let directory = self.engine.settings.files().ok_or_else(errors::secure_file_priv)?;
        let wanted = directory.join(name);
        let Some(file_name) = wanted.file_name().map(ToOwned::to_owned) else {
            return Err(errors::file_not_found(name, "no name of a file"));
        };
        let made = off_thread(move || {
            let directory = directory.canonicalize()?;
            let parent = wanted.parent().unwrap_or(Path::new("/")).canonicalize()?;
            if !parent.starts_with(&directory) {
                return Ok(None);
            }
            let path = parent.join(file_name);
            let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
            Ok(Some((path, file)))
        })?;
        match made {
            Ok(Some(made)) => Ok(made),
            Ok(None) => Err(errors::secure_file_priv()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(errors::file_exists(name)),
            Err(error) => Err(errors::file_not_created(name, error)),
        }
    }
}

/// Writes rows into a file.
struct FileSink<'a> {
    /// `None` for the bytes of the values alone.
    format: Option<&'a FileFormat>,
    charset: Charset,
    name: &'a str,
    /// `None` while it is being written to.
    file: Option<File>,
    out: Vec<u8>,
    /// For each column whether it has texts.
    texts: Vec<bool>,
    first: bool,
    rows: u64,
    failed: Option<tidegate_rows::ServerError>,
}

impl FileSink<'_> {
    /// Writes what there is.
    fn write_out(&mut self) -> Res<()> {
        let Some(mut file) = self.file.take() else { return Err(errors::internal("a file that was lost")) };
        let bytes = std::mem::take(&mut self.out);
        let written = off_thread(move || file.write_all(&bytes).map(|()| file))?;
        self.file = Some(written.map_err(|error| errors::file_not_written(self.name, error))?);
        Ok(())
    }

    fn put(&mut self, is_text: bool, value: &[u8]) {
        let Some(format) = self.format else { return self.out.extend_from_slice(value) };
        let enclosed = format.enclosed.filter(|_| is_text || !format.optionally);
        let separator = format.enclosed.or_else(|| format.field_end.first().copied());
        let line_end = format.line_end.first().copied();
        self.out.extend(enclosed);
        for &byte in value {
            if let Some(escape) = format.escape
                && (byte == escape || Some(byte) == separator || Some(byte) == line_end || byte == 0)
            {
                self.out.push(escape);
                self.out.push(if byte == 0 { b'0' } else { byte });
            } else {
                self.out.push(byte);
            }
        }
        self.out.extend(enclosed);
    }

    fn put_null(&mut self) {
        match self.format.map(|format| format.escape) {
            None => {}
            Some(Some(escape)) => self.out.extend_from_slice(&[escape, b'N']),
            Some(None) => self.out.extend_from_slice(b"NULL"),
        }
    }
}

impl Sink for FileSink<'_> {
    fn columns(&mut self, columns: &[Column]) {
        use ColumnType as T;
        let is_number = |kind| {
            matches!(
                kind,
                T::Tiny
                    | T::Short
                    | T::Int24
                    | T::Long
                    | T::LongLong
                    | T::Year
                    | T::Float
                    | T::Double
                    | T::Decimal
                    | T::NewDecimal
            )
        };
        self.texts = columns.iter().map(|column| !is_number(column.kind)).collect();
    }
    fn row(&mut self, row: Row<'_>) -> Flow {
        self.rows += 1;
        self.first = true;
        if let Some(format) = self.format {
            self.out.extend_from_slice(&format.line_start);
        } else if self.rows > 1 {
            self.failed.get_or_insert_with(errors::too_many_rows);
        }
        row.each(|index, value| {
            if let (false, Some(format)) = (self.first, self.format) {
                self.out.extend_from_slice(&format.field_end);
            }
            self.first = false;
            let mut digits = Vec::new();
            match value {
                Value::Null => return self.put_null(),
                Value::Bytes(bytes) => {
                    let encoded = self.charset.encode(bytes);
                    return self.put(self.texts.get(index) == Some(&true), &encoded);
                }
                Value::Int(value) => number::append_int(&mut digits, value),
                Value::Uint(value) => number::append_uint(&mut digits, value),
                Value::Float(value) => number::append_float(&mut digits, value),
                Value::Double(value) => number::append_double(&mut digits, value),
            }
            self.put(false, &digits);
        });
        if let Some(format) = self.format {
            self.out.extend_from_slice(&format.line_end);
        }
        if self.out.len() >= CHUNK_BYTES
            && let Err(error) = self.write_out()
        {
            self.failed.get_or_insert(error);
        }
        // A sink that is full and then closed ends the query.
        if self.failed.is_some() { Flow::Full } else { Flow::More }
    }
    fn end_result(&mut self, _: &Summary) {}
    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), SinkClosed>> {
        std::task::Poll::Ready(if self.failed.is_some() { Err(SinkClosed) } else { Ok(()) })
    }
}
