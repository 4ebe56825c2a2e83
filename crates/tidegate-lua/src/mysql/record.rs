//! Results kept for a moment: for a back end that calls its sink where no Lua error may be raised.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll};

use tidegate_rows::{Column, Flow, Sink, SinkClosed, Summary, Value};

/// A record of this size waits for [`Record::play`].
const DATA_BYTES_MAX: usize = 64 << 10;
/// The same for the count of calls.
const STEPS_MAX: usize = 8 << 10;

/// A call of the back end.
enum Step {
    Columns(Vec<Column>),
    BeginRow,
    Null,
    Int(i64),
    Uint(u64),
    Float(f32),
    Double(f64),
    /// So many bytes of the data.
    Bytes(usize),
    EndRow,
    EndResult(Summary),
}

#[derive(Default)]
struct Kept {
    steps: Vec<Step>,
    data: Vec<u8>,
}

/// A sink that keeps what it is given; clones are the same record.
#[derive(Clone, Default)]
pub(super) struct Record(Rc<RefCell<Kept>>);

impl Record {
    fn is_full(&self) -> bool {
        let kept = self.0.borrow();
        kept.data.len() >= DATA_BYTES_MAX || kept.steps.len() >= STEPS_MAX
    }

    /// Hands everything on to `sink`, which is never full, and forgets it. The record ends with whole rows: a back end
    /// does not wait in the midst of one.
    pub(super) fn play(&self, sink: &mut impl Sink) {
        let mut kept = self.0.take();
        let mut rest = kept.data.as_slice();
        let mut index = 0;
        for step in kept.steps.drain(..) {
            let value = match step {
                Step::Columns(columns) => {
                    sink.columns(&columns);
                    continue;
                }
                Step::BeginRow => {
                    sink.begin_row();
                    index = 0;
                    continue;
                }
                Step::EndRow => {
                    let _ = sink.end_row();
                    continue;
                }
                Step::EndResult(summary) => {
                    sink.end_result(&summary);
                    continue;
                }
                Step::Null => Value::Null,
                Step::Int(value) => Value::Int(value),
                Step::Uint(value) => Value::Uint(value),
                Step::Float(value) => Value::Float(value),
                Step::Double(value) => Value::Double(value),
                Step::Bytes(len) => {
                    let (bytes, tail) = rest.split_at(len);
                    rest = tail;
                    Value::Bytes(bytes)
                }
            };
            sink.value(index, value);
            index += 1;
        }
        kept.data.clear();
        *self.0.borrow_mut() = kept;
    }
}

impl Sink for Record {
    fn columns(&mut self, columns: &[Column]) {
        let columns = columns
            .iter()
            .map(|column| Column { flags: column.flags, ..Column::expression(column.name.clone(), column.kind) })
            .collect();
        self.0.borrow_mut().steps.push(Step::Columns(columns));
    }

    fn begin_row(&mut self) {
        self.0.borrow_mut().steps.push(Step::BeginRow);
    }

    fn value(&mut self, _index: usize, value: Value<'_>) {
        let kept = &mut *self.0.borrow_mut();
        kept.steps.push(match value {
            Value::Null => Step::Null,
            Value::Int(value) => Step::Int(value),
            Value::Uint(value) => Step::Uint(value),
            Value::Float(value) => Step::Float(value),
            Value::Double(value) => Step::Double(value),
            Value::Bytes(bytes) => {
                kept.data.extend_from_slice(bytes);
                Step::Bytes(bytes.len())
            }
        });
    }

    fn end_row(&mut self) -> Flow {
        self.0.borrow_mut().steps.push(Step::EndRow);
        if self.is_full() { Flow::Full } else { Flow::More }
    }

    fn end_result(&mut self, summary: &Summary) {
        self.0.borrow_mut().steps.push(Step::EndResult(summary.clone()));
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), SinkClosed>> {
        if self.is_full() {
            // It is played as soon as this poll has ended.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}
