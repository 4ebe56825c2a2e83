//! Reads configuration files and makes a [`Config`] of them.

use std::{path::PathBuf, sync::Arc};

use tidegate_conf::{Diagnostics, ParseOptions, SourceMap};

use super::{Build, Config, LevelId};
use crate::{files, module::Context, registry::Registry};

/// The files and settings that a configuration is loaded with.
pub struct LoadOptions {
    /// Directory that relative paths start from (`-p`).
    pub prefix: PathBuf,
    /// The configuration file (`-c`), absolute or relative to the current directory.
    pub conf_path: PathBuf,
    /// The configuration itself, in the place of the file's content.
    pub text: Option<Vec<u8>>,
    /// Directives from the command line (`-g`).
    pub globals: Option<String>,
    /// Only a test (`-t`): nothing outside is to be touched.
    pub testing: bool,
    /// The modules.
    pub registry: &'static Registry,
}

/// Why a configuration cannot be used; [`LoadError::render`] shows it to people.
#[derive(Debug)]
pub struct LoadError {
    /// What is wrong, each with its place.
    pub diagnostics: Diagnostics,
    /// The files.
    pub sources: SourceMap,
}

impl LoadError {
    /// Text for people: each problem with its line, a caret and a hint.
    pub fn render(&self) -> String {
        self.diagnostics.render(&self.sources)
    }
}

/// Loads a configuration.
///
/// # Errors
/// All problems found, not only the first.
pub fn load(options: &LoadOptions) -> Result<Arc<Config>, LoadError> {
    let mut sources = SourceMap::default();
    let mut diagnostics = Diagnostics::default();
    let conf_dir = options.conf_path.parent().map(PathBuf::from).unwrap_or_default();
    let parse = ParseOptions { conf_dir: conf_dir.clone(), open: Some(files::open), ..ParseOptions::default() };
    let globals = options
        .globals
        .as_ref()
        .map(|globals| tidegate_conf::parse_command_line(globals.as_bytes(), &mut sources, &parse, &mut diagnostics));
    let tree = match &options.text {
        Some(text) => {
            let name = options.conf_path.display().to_string();
            tidegate_conf::parse_text(name, text.as_slice(), &mut sources, &parse, &mut diagnostics)
        }
        None => tidegate_conf::parse_file(&options.conf_path, &mut sources, &parse, &mut diagnostics),
    };
    let parsed = !diagnostics.has_errors();
    let mut build = Build::new(options.registry, &sources, &mut diagnostics, options.prefix.clone(), conf_dir);
    build.testing = options.testing;
    if let Some(globals) = &globals {
        build.walk(LevelId(0), Context::MAIN, globals);
    }
    build.walk(LevelId(0), Context::MAIN, &tree);
    // With broken syntax the rest is checked too, so that all problems come in one report; but nothing is made of it.
    let config = build.finish(options.conf_path.clone()).filter(|_| parsed);
    if let Some(config) = &config {
        config.check(&mut diagnostics);
    }
    match config {
        Some(mut config) if !diagnostics.has_errors() => {
            config.warnings = diagnostics.iter().map(|d| (d.level, d.one_line(&sources))).collect();
            config.sources = sources;
            Ok(Arc::new(config))
        }
        _ => Err(LoadError { diagnostics, sources }),
    }
}
