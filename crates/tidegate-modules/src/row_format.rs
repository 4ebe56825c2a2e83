//! What rows become in a location: JSON, CSV or RDS, as `rds_json` and `rds_csv` say.

use std::sync::Arc;

use tidegate_core::request::Request;
use tidegate_rows::{
    Column, Format, Row, Summary, Value,
    csv::Csv,
    json::{Json, JsonOptions},
    rds::{RDS_CONTENT_TYPE, Rds},
};

use crate::{rds_csv, rds_json};

/// Whether a statement may have several results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Results {
    /// One at most: it is the whole body.
    One,
    /// Several: JSON becomes an array of them, CSV and RDS write one behind the other.
    Several,
}

/// Writes rows as the location says.
pub(crate) enum RowFormat {
    Json(Json<Arc<JsonOptions>>),
    Csv(Csv),
    Rds(Rds),
}

macro_rules! each_format {
    ($self:ident, $format:ident => $call:expr) => {
        match $self {
            RowFormat::Json($format) => $call,
            RowFormat::Csv($format) => $call,
            RowFormat::Rds($format) => $call,
        }
    };
}

impl RowFormat {
    /// What of the format depends on the request and not on its location alone.
    pub(crate) fn of_request(&self) -> &[u8] {
        match self {
            Self::Json(json) => json.properties(),
            Self::Csv(_) | Self::Rds(_) => b"",
        }
    }

    /// Appends all that decides about what is written of a result.
    pub(crate) fn append_identity(&self, out: &mut Vec<u8>) {
        match self {
            Self::Json(json) => {
                out.push(b'j');
                json.append_identity(out);
            }
            Self::Csv(csv) => {
                out.push(b'c');
                csv.append_identity(out);
            }
            Self::Rds(_) => out.push(b'r'),
        }
    }

    /// The format of the request's location, with its content type.
    pub(crate) fn of(req: &Request, results: Results) -> (Self, &[u8]) {
        let (json, csv) = (req.module_conf(&rds_json::MODULE), req.module_conf(&rds_csv::MODULE));
        if json.is_on() {
            (Self::Json(json.format(req, results)), json.content_type())
        } else if csv.is_on() {
            (Self::Csv(csv.format()), csv.content_type())
        } else {
            (Self::Rds(Rds::default()), RDS_CONTENT_TYPE.as_bytes())
        }
    }
}

impl Format for RowFormat {
    fn columns(&mut self, columns: &[Column], out: &mut Vec<u8>) {
        each_format!(self, format => format.columns(columns, out));
    }
    fn begin_row(&mut self, out: &mut Vec<u8>) {
        each_format!(self, format => format.begin_row(out));
    }
    fn value(&mut self, index: usize, value: Value<'_>, out: &mut Vec<u8>) {
        each_format!(self, format => format.value(index, value, out));
    }
    fn end_row(&mut self, out: &mut Vec<u8>) {
        each_format!(self, format => format.end_row(out));
    }
    fn row(&mut self, row: Row<'_>, out: &mut Vec<u8>) {
        each_format!(self, format => format.row(row, out));
    }
    fn end_result(&mut self, summary: &Summary, out: &mut Vec<u8>) {
        each_format!(self, format => format.end_result(summary, out));
    }
    fn failure(&mut self, errcode: u16, errstr: &[u8], out: &mut Vec<u8>) {
        each_format!(self, format => format.failure(errcode, errstr, out));
    }
}
