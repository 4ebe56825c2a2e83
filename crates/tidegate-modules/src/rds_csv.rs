//! `rds_csv`: rows as comma-separated values.
//!
//! Follows rds-csv-nginx-module.

use bstr::{BString, ByteSlice};
use tidegate_conf::{Diagnostic, ast};
use tidegate_core::{
    conf::Build,
    inherit,
    main_conf::bad_value,
    module::{Context, Directive, Module},
};
use tidegate_rows::csv::{Csv, CsvOptions, CsvTerminator};

use crate::rds_filter;

/// What the directives say at one level.
#[derive(Debug, Default)]
pub struct Conf {
    /// `rds_csv`
    pub rds_csv: Option<bool>,
    /// `rds_csv_row_terminator`
    pub rds_csv_row_terminator: Option<CsvTerminator>,
    /// `rds_csv_field_separator`
    pub rds_csv_field_separator: Option<u8>,
    /// `rds_csv_field_name_header`
    pub rds_csv_field_name_header: Option<bool>,
    /// `rds_csv_escape_formulas`
    pub rds_csv_escape_formulas: Option<bool>,
    /// `rds_csv_content_type`
    pub rds_csv_content_type: Option<BString>,
    /// `rds_csv_buffer_size`, accepted: the size follows the result.
    pub rds_csv_buffer_size: Option<usize>,
}

const PLACES: Context = Context::ALL_IF;

/// The module.
pub static MODULE: Module<Conf> = Module {
    directives: &[
        Directive::flag("rds_csv", |c: &mut Conf| &mut c.rds_csv)
            .within(PLACES)
            .default("off")
            .doc("Answers with the rows as comma-separated values."),
        Directive::custom("rds_csv_row_terminator", 1, 1, row_terminator)
            .within(PLACES)
            .syntax("\"\\r\\n\" | \"\\n\"")
            .default("\"\\r\\n\"")
            .doc("Text that ends a row."),
        Directive::custom("rds_csv_field_separator", 1, 1, field_separator)
            .within(PLACES)
            .syntax("character")
            .default(",")
            .doc("Text that separates fields of a row."),
        Directive::flag("rds_csv_field_name_header", |c: &mut Conf| &mut c.rds_csv_field_name_header)
            .within(PLACES)
            .default("on")
            .doc("The first row holds the names of the columns."),
        Directive::flag("rds_csv_escape_formulas", |c: &mut Conf| &mut c.rds_csv_escape_formulas)
            .within(PLACES)
            .default("off")
            .doc("Puts a ' in front of texts that a spreadsheet would take for a formula."),
        Directive::text("rds_csv_content_type", |c: &mut Conf| &mut c.rds_csv_content_type)
            .within(PLACES)
            .default("text/csv; header=presence")
            .doc("Content type of the response."),
        Directive::size("rds_csv_buffer_size", |c: &mut Conf| &mut c.rds_csv_buffer_size)
            .within(PLACES)
            .doc("Accepted: buffers grow with the result."),
    ],
    inherit: |child, parent, _| {
        inherit!(child, parent; rds_csv, rds_csv_row_terminator, rds_csv_field_separator, rds_csv_field_name_header,
            rds_csv_escape_formulas, rds_csv_content_type, rds_csv_buffer_size);
    },
    install: |conf, program| {
        if conf.is_on() {
            rds_filter::install(program, "rds_csv");
        }
    },
    example: r#"
        location /cats.csv {
            drizzle_query "select * from cats";
            drizzle_pass cats;
            rds_csv on;
        }
    "#,
    ..Module::named("rds_csv")
};

fn row_terminator(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    conf.rds_csv_row_terminator = Some(match &**directive.args[0].value {
        b"\r\n" => CsvTerminator::CrLf,
        b"\n" => CsvTerminator::Lf,
        _ => {
            let message = "invalid value for \"rds_csv_row_terminator\": ";
            return Err(Diagnostic::new(
                tidegate_conf::Level::Emerg,
                directive.args[0].span,
                format!("{message}{}", directive.args[0].value),
            ));
        }
    });
    Ok(())
}

fn field_separator(conf: &mut Conf, directive: &ast::Directive, _: &mut Build<'_>) -> Result<(), Diagnostic> {
    match **directive.args[0].value {
        [separator] if !matches!(separator, b'"' | b'\r' | b'\n') => {
            conf.rds_csv_field_separator = Some(separator);
            Ok(())
        }
        _ => Err(bad_value(directive)),
    }
}

impl Conf {
    /// Whether rows are to become CSV.
    pub fn is_on(&self) -> bool {
        self.rds_csv == Some(true)
    }

    /// Content type of the response.
    pub fn content_type(&self) -> &[u8] {
        match &self.rds_csv_content_type {
            Some(kind) => kind.as_bytes(),
            None if self.rds_csv_field_name_header == Some(false) => b"text/csv; header=absence",
            None => b"text/csv; header=presence",
        }
    }

    /// A writer for the rows of one response.
    pub fn format(&self) -> Csv {
        Csv::new(CsvOptions {
            escape_formulas: self.rds_csv_escape_formulas == Some(true),
            terminator: self.rds_csv_row_terminator.unwrap_or(CsvTerminator::CrLf),
            separator: self.rds_csv_field_separator.unwrap_or(b','),
            names: self.rds_csv_field_name_header != Some(false),
        })
    }
}
