//! The configuration language: lexer, parser, values, spans, diagnostics.
