//! LOAD DATA: the fields of a file become rows.
//!
//! The reader follows MariaDB's byte by byte: what ends, encloses and escapes fields may each be any bytes.

use super::{
    bind::Constants,
    insert::{Given, InsertRun},
    write::{Res, TOO_MUCH, Writer},
};
use crate::{
    env::{Charset, UserValue},
    errors,
    parse::files::FileFormat,
    store::file_source::FileSource,
    translate::{
        dml::{Cellish, Feed, InsertPlan},
        load::{FieldTo, LoadPlan},
        params::Params,
    },
    value::{Base, Datum, SqlType, Val, collation::Collation},
};

/// A field as a line has it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Text(Vec<u8>),
    Null,
    /// The line has ended before it.
    Missing,
}

/// A variable that no field has reached.
pub(crate) fn no_text() -> UserValue {
    UserValue { value: Datum::Null, ty: SqlType { collation: Collation::DEFAULT, ..SqlType::new(Base::LongText) } }
}

impl Writer<'_> {
    /// Inserts the rows of a file.
    ///
    /// # Errors
    /// Those of INSERT; the file's.
    pub(super) fn load_rows(&mut self, plan: &InsertPlan, load: &LoadPlan, run: &mut InsertRun) -> Res<()> {
        let mut reader = Reader::new(&load.format, &load.source, self.memory_max);
        for _ in 0..load.skip {
            if load.format.line_end.is_empty() || !reader.next_line()? {
                break;
            }
        }
        let mut variables: Vec<UserValue> = load.variables.iter().map(|_| no_text()).collect();
        let mut number = 0;
        while let Some(fields) = self.next_fields(load, &mut reader)? {
            number += 1;
            for (field, to) in fields.iter().zip(&load.fields) {
                if let FieldTo::Variable(slot) = to {
                    variables[*slot].value = match field {
                        Field::Text(text) => Datum::text(load.charset.decode(text)),
                        Field::Null | Field::Missing => Datum::Null,
                    };
                }
            }
            let values: Vec<UserValue> = load.params.iter().map(|slot| variables[*slot].clone()).collect();
            self.with_values(&values).load_row(plan, load, &fields, number, run)?;
            if !reader.next_line()? {
                break;
            }
            if reader.was_cut {
                self.remark(errors::too_many_fields(number), plan.ignore)?;
            }
        }
        for (name, value) in load.variables.iter().zip(variables) {
            self.env.set_user_variable(name, value);
        }
        Ok(())
    }

    /// The fields of the next line; `None` at the end of the file.
    fn next_fields(&self, load: &LoadPlan, reader: &mut Reader<'_>) -> Res<Option<Vec<Field>>> {
        let mut fields = Vec::with_capacity(load.fields.len());
        for _ in &load.fields {
            match reader.field()? {
                Some(field) => fields.push(field),
                None if fields.is_empty() => return Ok(None),
                None => break,
            }
        }
        fields.resize(load.fields.len(), Field::Missing);
        Ok(Some(fields))
    }

    /// The same, with other values for the parameters.
    fn with_values<'s>(&'s mut self, values: &'s [UserValue]) -> Writer<'s> {
        Writer {
            conn: self.conn,
            constants: Constants { params: Params::Variables(values), ..self.constants },
            env: self.env,
            memory_max: self.memory_max,
            stmts: self.stmts,
            notes: self.notes.as_deref_mut(),
            nulls_later: self.nulls_later,
            omitted: Vec::new(),
            omitted_told: self.omitted_told,
            touched: Vec::new(),
        }
    }

    /// Inserts the row that a line is.
    fn load_row(
        &mut self,
        plan: &InsertPlan,
        load: &LoadPlan,
        fields: &[Field],
        number: usize,
        run: &mut InsertRun,
    ) -> Res<()> {
        let mut given: Vec<Option<&Field>> = vec![None; plan.columns.len()];
        for (field, to) in fields.iter().zip(&load.fields) {
            if let FieldTo::Column(index) = to {
                given[*index] = Some(field);
            }
        }
        let row = &plan.rows[0];
        let evaluated = row.feed.as_ref().map(|feed| self.collect(feed)).transpose()?;
        let outs = row.feed.as_ref().map_or(&[][..], |feed: &Feed| &feed.outs);
        let set_from = plan.columns.len() - row.values.len();
        let constants = self.constants;
        let made = self.row_of((&plan.to, &plan.columns), number, false, plan.ignore, |writer, index| {
            if let Some(field) = given[index] {
                return writer.field_given(plan, load.charset, field, index, number);
            }
            let target = &plan.to.table.columns[plan.columns[index]].ty;
            let value = index.checked_sub(set_from).and_then(|index| row.values.get(index));
            Ok(match value {
                None | Some(Cellish::Default) => Given::Default,
                Some(Cellish::Const(source)) => Given::Value(constants.value_for(source, target)?),
                Some(Cellish::Column(column)) => match &evaluated {
                    Some(rows) => Given::Value(outs[*column].value_for(rows.cells[*column].as_cell(), target)),
                    None => Given::Default,
                },
                Some(Cellish::Late(late)) => Given::Late(late),
            })
        });
        match self.or_skip(made, plan.ignore)? {
            Some((values, pending)) => self.insert_one(plan, run, values, &pending, &[]),
            None => {
                run.rows += 1;
                Ok(())
            }
        }
    }

    /// What a column gets of a field.
    fn field_given<'f>(
        &self,
        plan: &InsertPlan,
        charset: Charset,
        field: &'f Field,
        index: usize,
        number: usize,
    ) -> Res<Given<'f>> {
        let target = self.target(&plan.to, plan.columns[index], number, plan.ignore);
        let column = target.column;
        let is_moment = column.ty.base == Base::Timestamp && !column.nullable;
        Ok(match field {
            Field::Text(text) => Given::Value(Val::Text(charset.decode(text))),
            Field::Null if column.nullable || column.auto_increment || is_moment => Given::Value(Val::Null),
            Field::Null => {
                self.remark(errors::null_to_not_null(&column.name, number), plan.ignore)?;
                Given::Stored(target.implicit_default())
            }
            Field::Missing => {
                self.remark(errors::too_few_fields(number), plan.ignore)?;
                let now = if is_moment { self.now(column) } else { target.implicit_default() };
                Given::Stored(now)
            }
        })
    }

    /// A warning, or an error where the statement is strict about values.
    fn remark(&self, error: tidegate_rows::ServerError, ignore: bool) -> Res<()> {
        if self.strict() && !ignore {
            return Err(error);
        }
        self.env.warn(error);
        Ok(())
    }
}

/// The fields of a file, one after the other.
struct Reader<'a> {
    format: &'a FileFormat,
    source: &'a FileSource,
    /// What was read of the file and not used.
    buf: Vec<u8>,
    pos: usize,
    /// Where in the file the next read begins.
    at: u64,
    /// Bytes of a field at most.
    field_bytes_max: usize,
    /// Whether a byte may be more than itself.
    special: Box<[bool; 256]>,
    /// The end of the line has been read with its last field.
    line_ended: bool,
    is_at_end: bool,
    /// What begins a line is to be looked for.
    seeks_start: bool,
    /// The line had more fields than were read.
    was_cut: bool,
}

impl<'a> Reader<'a> {
    fn new(format: &'a FileFormat, source: &'a FileSource, field_bytes_max: usize) -> Self {
        let mut special = Box::new([false; 256]);
        let firsts = [format.field_end.first().copied(), format.line_end.first().copied()];
        for byte in firsts.into_iter().chain([format.enclosed, format.escape]).flatten() {
            special[usize::from(byte)] = true;
        }
        Self {
            format,
            source,
            buf: Vec::new(),
            pos: 0,
            at: 0,
            field_bytes_max,
            special,
            line_ended: false,
            is_at_end: false,
            seeks_start: !format.line_start.is_empty(),
            was_cut: false,
        }
    }

    /// Makes sure that `count` bytes wait, if the file has so many more; answers whether it has.
    fn have(&mut self, count: usize) -> Res<bool> {
        while self.buf.len() - self.pos < count {
            self.buf.drain(..self.pos);
            self.pos = 0;
            let read = self.source.read_at(self.at, &mut self.buf)?;
            if read == 0 {
                return Ok(false);
            }
            self.at += read as u64;
        }
        Ok(true)
    }

    fn byte(&mut self) -> Res<Option<u8>> {
        if self.pos == self.buf.len() && !self.have(1)? {
            return Ok(None);
        }
        self.pos += 1;
        Ok(Some(self.buf[self.pos - 1]))
    }

    /// Takes `wanted` if it comes next.
    fn takes(&mut self, wanted: &[u8]) -> Res<bool> {
        if wanted.is_empty() || !self.have(wanted.len())? || self.buf[self.pos..][..wanted.len()] != *wanted {
            return Ok(false);
        }
        self.pos += wanted.len();
        Ok(true)
    }

    /// What ends lines, unless the same ends fields: then a line has as many fields as are wanted.
    fn line_end(&self) -> &'a [u8] {
        if self.format.line_end == self.format.field_end { &[] } else { &self.format.line_end }
    }

    /// Skips to behind what begins a line; `false` if there is no more.
    fn find_start(&mut self) -> Res<bool> {
        loop {
            if self.takes(&self.format.line_start)? {
                return Ok(true);
            }
            if self.byte()?.is_none() {
                self.is_at_end = true;
                return Ok(false);
            }
        }
    }

    /// The next field of the line; `None` at its end.
    fn field(&mut self) -> Res<Option<Field>> {
        if self.line_ended || self.is_at_end {
            return Ok(None);
        }
        if std::mem::take(&mut self.seeks_start) && !self.find_start()? {
            return Ok(None);
        }
        let Some(first) = self.byte()? else {
            (self.line_ended, self.is_at_end) = (true, true);
            return Ok(None);
        };
        let mut text = Vec::new();
        let quote = self.format.enclosed.filter(|quote| *quote == first);
        if quote.is_none() {
            self.pos -= 1;
        }
        let mut null_escape = false;
        let closed = self.read_text(quote, &mut text, &mut null_escape)?;
        if let (Some(quote), false) = (quote, closed) {
            // The file has ended within it: the quotation mark was none.
            text.insert(0, quote);
        }
        let is_null = null_escape && text.len() == 1 || self.format.enclosed.is_some() && !closed && text == b"NULL";
        Ok(Some(if is_null { Field::Null } else { Field::Text(text) }))
    }

    /// Reads to the end of a field; answers whether the quotation mark that began it has ended it.
    fn read_text(&mut self, quote: Option<u8>, text: &mut Vec<u8>, null_escape: &mut bool) -> Res<bool> {
        let line_end = self.line_end();
        loop {
            if self.have(1)? {
                let rest = &self.buf[self.pos..];
                let plain = rest.iter().position(|byte| self.special[usize::from(*byte)]).unwrap_or(rest.len());
                text.extend_from_slice(&rest[..plain]);
                self.pos += plain;
                if text.len() > self.field_bytes_max {
                    return Err(errors::unsupported(TOO_MUCH));
                }
            }
            if quote.is_none() && self.takes(line_end)? {
                self.line_ended = true;
                return Ok(false);
            }
            if quote.is_none() && self.takes(&self.format.field_end)? {
                return Ok(false);
            }
            let Some(byte) = self.byte()? else {
                (self.line_ended, self.is_at_end) = (true, true);
                return Ok(false);
            };
            if self.format.escape == Some(byte) {
                let Some(next) = self.byte()? else {
                    text.push(byte);
                    continue;
                };
                // A character that both encloses and escapes stands for itself when it is doubled, and escapes nothing else.
                if self.format.enclosed != Some(byte) || next == byte {
                    text.push(unescaped(next, null_escape));
                    continue;
                }
                self.pos -= 1;
            }
            if quote == Some(byte) {
                if self.takes(&[byte])? {
                    text.push(byte);
                    continue;
                }
                let ended = !self.have(1)?;
                if ended || self.takes(line_end)? {
                    (self.line_ended, self.is_at_end) = (true, ended);
                    return Ok(true);
                }
                if self.takes(&self.format.field_end)? {
                    return Ok(true);
                }
            }
            text.push(byte);
        }
    }

    /// Goes on to the next line; `false` at the end of the file.
    fn next_line(&mut self) -> Res<bool> {
        self.was_cut = false;
        self.seeks_start = !self.format.line_start.is_empty();
        if self.line_ended || self.is_at_end {
            self.line_ended = false;
            return Ok(!self.is_at_end);
        }
        let line_end = self.line_end();
        if line_end.is_empty() {
            return Ok(true);
        }
        loop {
            if self.takes(line_end)? {
                return Ok(true);
            }
            let Some(byte) = self.byte()? else {
                self.is_at_end = true;
                return Ok(false);
            };
            self.was_cut = true;
            if self.format.escape == Some(byte) && self.byte()?.is_none() {
                self.is_at_end = true;
                return Ok(false);
            }
        }
    }
}

/// The character that an escaped one stands for. `N` may be the whole of a field, which is NULL then.
fn unescaped(byte: u8, null_escape: &mut bool) -> u8 {
    match byte {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 8,
        b'0' => 0,
        b'Z' => 26,
        b'N' => {
            *null_escape = true;
            b'N'
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of all lines, of which each has so many.
    fn read(text: &[u8], format: &FileFormat, count: usize) -> Vec<Vec<Field>> {
        let source = FileSource::of_bytes(text.to_vec());
        let mut reader = Reader::new(format, &source, 1 << 20);
        let mut lines = Vec::new();
        loop {
            let fields: Vec<Field> = (0..count).map_while(|_| reader.field().unwrap()).collect();
            if fields.is_empty() {
                return lines;
            }
            lines.push(fields);
            if !reader.next_line().unwrap() {
                return lines;
            }
        }
    }

    fn text(text: &str) -> Field {
        Field::Text(text.into())
    }

    #[test]
    fn tabs_and_escapes() {
        let lines = read(b"1\ta\\tb\\\nc\n\\N\t\\\\N\n\nlast", &FileFormat::default(), 2);
        assert_eq!(lines[0], [text("1"), text("a\tb\nc")]);
        assert_eq!(lines[1], [Field::Null, text("\\N")]);
        assert_eq!(lines[2..], [vec![text("")], vec![text("last")]]);
    }

    #[test]
    fn quotation_marks() {
        let format = FileFormat { field_end: b",".to_vec(), enclosed: Some(b'"'), ..FileFormat::default() };
        let lines = read(b"\"a,b\",NULL,\"NULL\"\n\"say \"\"hi\"\"\",x\"y,\"a\"b\"\n\"open,1", &format, 3);
        assert_eq!(lines[0], [text("a,b"), Field::Null, text("NULL")]);
        assert_eq!(lines[1], [text("say \"hi\""), text("x\"y"), text("a\"b")]);
        assert_eq!(lines[2], [text("\"open,1")]);
        let doubled = FileFormat { escape: Some(b'"'), ..format };
        assert_eq!(read(b"\"a\"\"b\",c\n", &doubled, 2), [[text("a\"b"), text("c")]]);
    }

    #[test]
    fn lines_that_begin_and_end_with_something() {
        let format = FileFormat {
            field_end: b"||".to_vec(),
            line_start: b"->".to_vec(),
            line_end: b"\r\n".to_vec(),
            ..FileFormat::default()
        };
        let lines = read(b"noise->1||a|b\r\nnoise\r\n->2||c\r\n", &format, 2);
        assert_eq!(lines, [[text("1"), text("a|b")], [text("2"), text("c")]]);
    }

    #[test]
    fn what_ends_fields_ends_lines_too() {
        let format = FileFormat { field_end: b",".to_vec(), line_end: b",".to_vec(), ..FileFormat::default() };
        assert_eq!(read(b"1,2,3,4,", &format, 2), [[text("1"), text("2")], [text("3"), text("4")]]);
    }
}
