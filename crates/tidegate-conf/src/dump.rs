//! All files of a configuration as `-T` prints them.

use std::io::{self, Write};

use crate::source::SourceMap;

/// Writes every file that was read, in order, each below a line with its name.
///
/// # Errors
/// Those of `out`.
pub fn dump(sources: &SourceMap, out: &mut dyn Write) -> io::Result<()> {
    for file in sources.files().filter(|&file| !sources.is_command_line(file)) {
        writeln!(out, "# configuration file {}:", sources.name(file))?;
        out.write_all(sources.text(file))?;
        writeln!(out)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_stands_below_its_name() {
        let mut sources = SourceMap::new();
        sources.add_command_line("daemon off;");
        sources.add("/etc/a.conf", "include b;\n");
        sources.add("/etc/b", "x;");
        let mut out = Vec::new();
        dump(&sources, &mut out).unwrap();
        let expected = "# configuration file /etc/a.conf:\ninclude b;\n\n# configuration file /etc/b:\nx;\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
