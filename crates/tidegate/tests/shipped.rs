//! The configurations that ship beside the binary: `conf/` and `examples/`.

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use support::Site;

fn shipped(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).expect(path)
}

fn params(text: &str) -> BTreeSet<String> {
    let directives = text.lines().filter(|line| line.starts_with("fastcgi_param"));
    directives.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn fastcgi_conf_is_fastcgi_params_and_the_script() {
    let (conf, common) = (params(&shipped("conf/fastcgi.conf")), params(&shipped("conf/fastcgi_params")));
    let more: Vec<&String> = conf.difference(&common).collect();
    assert_eq!(more, ["fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;"]);
    assert!(common.is_subset(&conf));
}

#[test]
fn the_files_to_include_and_the_sites_are_accepted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the source tree");
    let site = Site::new("", "");
    let application = |name: &str| {
        shipped(name)
            .replace("../../conf", &root.join("conf").to_string_lossy())
            .replace("../demo", &root.join("examples/demo").to_string_lossy())
    };
    let cache = shipped("examples/cache/nginx.conf").replace("../demo", &root.join("examples/demo").to_string_lossy());
    for text in [
        application("examples/php/nginx.conf"),
        cache,
        application("examples/wordpress/nginx.conf"),
        application("examples/mediawiki/nginx.conf"),
        application("examples/phpmyadmin/nginx.conf"),
        shipped("examples/ssi/nginx.conf"),
        format!(
            "events {{ }} http {{ include {}/scgi_params; include {0}/uwsgi_params; }}",
            root.join("conf").display()
        ),
    ] {
        site.write_conf(&text);
        let output = site.run(&["-t"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
