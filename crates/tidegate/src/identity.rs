//! Under which name the binary presents itself: the one it is called by.
//!
//! Scripts, packages and test harnesses made for nginx call `nginx`, a symbolic link to this binary, and find an
//! nginx: its version, its option texts, its `Server` field.

use std::ffi::OsStr;
use std::path::Path;

use tidegate_core::NGINX_VERSION;
use tidegate_core::product::Product;

/// Our own version.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The name that the binary was called by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    Tidegate,
    Nginx,
}

impl Identity {
    /// Looks at the last part of the path that the binary was called by.
    pub(crate) fn of(program: &OsStr) -> Self {
        match Path::new(program).file_name() {
            Some(name) if name == "nginx" => Self::Nginx,
            _ => Self::Tidegate,
        }
    }

    /// The word that messages begin with.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::Nginx => "nginx",
        }
    }

    /// Name and version, as the `Server` field shows them.
    pub(crate) fn product(self) -> Product {
        let name_and_version = match self {
            Self::Tidegate => format!("tidegate/{VERSION}"),
            Self::Nginx => format!("nginx/{NGINX_VERSION}"),
        };
        // Asked for once, and needed for as long as the process lives.
        Product { name: self.name(), name_and_version: name_and_version.leak() }
    }

    /// What `-v` prints. The line `nginx version:` is there under both names, because tools look for it.
    pub(crate) fn version_text(self) -> String {
        match self {
            Self::Tidegate => {
                format!("tidegate version: tidegate/{VERSION}\nnginx version: tidegate/{NGINX_VERSION}\n")
            }
            Self::Nginx => format!("nginx version: nginx/{NGINX_VERSION}\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides() {
        for (program, expected) in [
            ("nginx", Identity::Nginx),
            ("/usr/sbin/nginx", Identity::Nginx),
            ("./tidegate", Identity::Tidegate),
            ("nginx-debug", Identity::Tidegate),
            ("", Identity::Tidegate),
        ] {
            assert_eq!(Identity::of(OsStr::new(program)), expected, "{program}");
        }
        assert_eq!(Identity::Nginx.version_text(), "nginx version: nginx/1.27.1\n");
    }
}
