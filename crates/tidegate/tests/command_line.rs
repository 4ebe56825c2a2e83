//! Options, tests of configurations and signals, as scripts see them.

mod support;

use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use support::{Site, binary, output};

fn text(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("no signal"), text(&output.stdout), text(&output.stderr))
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    text(&output(binary().args(arguments)))
}

#[test]
fn version_and_help() {
    let (code, out, err) = run(&["-v"]);
    assert_eq!((code, out.as_str()), (0, ""));
    assert!(err.starts_with("tidegate version: tidegate/") && err.contains("\nnginx version: tidegate/1."), "{err}");
    let (code, _, err) = run(&["-V"]);
    assert!(code == 0 && err.contains("configure arguments: --prefix="), "{err}");
    let (code, _, err) = run(&["--version"]);
    assert!(code == 0 && err.starts_with("tidegate version: tidegate/"), "{err}");
    for command in ["demo", "directives", "lua", "sql"] {
        let (code, out, err) = run(&[command, "--help"]);
        assert!(code == 0 && out.contains(&format!("tidegate {command}")) && err.is_empty(), "{out}{err}");
        let (code, out, err) = run(&[command, "--version"]);
        assert!(code == 0 && (out + &err).contains("tidegate"), "{command}");
    }
    let (code, _, err) = run(&["demo", "--nosuch"]);
    assert!(code == 1 && err.contains("tidegate demo --help"), "{err}");
    for option in ["-h", "-?", "--help"] {
        let (code, _, err) = run(&[option]);
        assert!(code == 0 && err.contains("Usage: tidegate [-?hvVtTq] [-s signal]"), "{err}");
    }
}

#[test]
fn what_is_refused() {
    for (arguments, expected) in [
        (&["-x"][..], "tidegate: invalid option: \"x\"\n"),
        (&["serve"], "tidegate: invalid option: \"serve\"\n"),
        (&["-s", "foo"], "tidegate: invalid option: \"-s foo\"\n"),
        (&["-c"], "tidegate: option \"-c\" requires file name\n"),
    ] {
        assert_eq!(run(arguments), (1, String::new(), expected.to_owned()), "{arguments:?}");
    }
}

#[test]
fn called_nginx_it_is_nginx() {
    let site = Site::new("", "");
    let nginx = site.dir.join("nginx");
    symlink(env!("CARGO_BIN_EXE_tidegate"), &nginx).expect("linked");
    let run = |arguments: &[&str]| text(&output(Command::new(&nginx).args(arguments)));
    assert_eq!(run(&["-v"]), (0, String::new(), "nginx version: nginx/1.27.1\n".to_owned()));
    assert_eq!(run(&["directives"]).2, "nginx: invalid option: \"directives\"\n");
    // Harnesses for nginx look for these.
    let (_, _, err) = run(&["-V"]);
    assert!(err.contains("nginx version: nginx/1.27.1\n") && err.contains("built with OpenSSL 3."), "{err}");
    site.write_conf("foo;\n");
    let conf = site.dir.join("conf/nginx.conf");
    let (code, _, err) = run(&["-t", "-p", site.dir.to_str().expect("text")]);
    let first = format!("nginx: [emerg] unknown directive \"foo\" in {}:1\n", conf.display());
    let last = format!("nginx: configuration file {} test failed\n", conf.display());
    assert!(code == 1 && err.starts_with(&first) && err.ends_with(&last), "{err}");
}

#[test]
fn testing_a_good_configuration() {
    let site = Site::new("", "");
    let conf = site.dir.join("conf/nginx.conf");
    let (code, out, err) = text(&site.run(&["-t"]));
    let expected = format!(
        "tidegate: the configuration file {0} syntax is ok\ntidegate: configuration file {0} test is successful\n",
        conf.display()
    );
    assert_eq!((code, out.as_str(), err), (0, "", expected));
    assert_eq!(text(&site.run(&["-tq"])), (0, String::new(), String::new()));
    let (code, out, _) = text(&site.run(&["-T", "-q"]));
    let written = std::fs::read_to_string(&conf).expect("there");
    assert_eq!((code, out), (0, format!("# configuration file {}:\n{written}\n", conf.display())));
    assert!(!site.dir.join("logs/nginx.pid").exists());
}

#[test]
fn testing_a_bad_configuration_reports_everything() {
    let site = Site::new("", "");
    site.write_conf("events { }\nhttp {\n  server {\n    lisen 80;\n    server_name;\n  }\n}\n");
    let conf = site.dir.join("conf/nginx.conf");
    let (code, _, err) = text(&site.run(&["-t", "-q"]));
    assert_eq!(code, 1);
    let place = conf.display();
    for expected in [
        format!("tidegate: [emerg] unknown directive \"lisen\" in {place}:4:5\n    4 |     lisen 80;\n"),
        "did you mean \"listen\"?".to_owned(),
        format!("tidegate: [emerg] invalid number of arguments in \"server_name\" directive in {place}:5:"),
        format!("tidegate: configuration file {place} test failed\n"),
    ] {
        assert!(err.contains(&expected), "{expected:?} is not in {err}");
    }
    // In the log each is one line in nginx's words.
    assert!(site.log().contains(&format!(": unknown directive \"lisen\" in {place}:4\n")), "{}", site.log());
}

#[test]
fn a_missing_file_and_directives_on_the_command_line() {
    let site = Site::new("", "");
    let (code, _, err) = text(&site.run(&["-t", "-c", "conf/no.conf"]));
    let path = site.dir.join("conf/no.conf");
    let expected = format!("open() \"{}\" failed (2: No such file or directory)", path.display());
    assert!(code == 1 && err.contains(&expected), "{err}");
    site.write_conf("");
    let (code, _, err) = text(&site.run(&["-t"]));
    assert!(code == 1 && err.contains("[emerg] no \"events\" section in configuration\n"), "{err}");
    site.configure("", "");
    let (code, _, err) = text(&site.run(&["-t", "-g", "foo on;"]));
    assert!(code == 1 && err.contains("unknown directive \"foo\" in command line"), "{err}");
}

#[test]
fn what_is_wrong_comes_with_what_would_be_right() {
    let site = Site::new("", "");
    for (server, expected) in [
        ("root;", "expected: root path"),
        ("autoindex on off;", "expected: autoindex on | off"),
        ("internal yes;", "\"internal\" takes no arguments"),
        ("client_max_body_size 10mb;", "did you mean \"10m\"?"),
        ("send_timeout 30sec;", "did you mean \"30s\"?"),
        ("client_body_buffer_size 16KiB;", "did you mean \"16k\"?"),
        ("ssl_protocols TLSv1;", "say \"ssl_protocols TLSv1.2 TLSv1.3\""),
    ] {
        site.write_conf(&format!(
            "events {{ }}\nhttp {{\n  server {{\n    location / {{ {server} }}\n    {server}\n  }}\n}}\n"
        ));
        let (code, _, err) = text(&site.run(&["-t"]));
        assert!(code == 1 && err.contains(expected), "{server}: {err}");
    }
    if nix::unistd::Uid::effective().is_root() {
        site.write_conf("\nuser nosuchuser;\nevents { }\n");
        let (code, _, err) = text(&site.run(&["-t"]));
        let place = site.dir.join("conf/nginx.conf");
        let expected = format!("getpwnam(\"nosuchuser\") failed in {}:2:6\n    2 | user nosuchuser;", place.display());
        assert!(code == 1 && err.contains(&expected), "{err}");
    }
}

#[test]
fn without_an_installation_a_configuration_has_its_own_directory() {
    // The built-in prefix of a test build is a directory that tests do not make.
    if std::path::Path::new("/usr/local/tidegate").exists() {
        return;
    }
    let site = Site::new("", "");
    let conf = site.dir.join("nginx.conf");
    std::fs::write(&conf, "events { }\n").expect("written");
    let run = |arguments: &[&str]| text(&output(binary().args(arguments).current_dir(&site.dir)));
    let (code, _, err) = run(&["-t", "-c", "nginx.conf"]);
    assert!(
        code == 0 && err.contains(&format!("{} test is successful", conf.display())) && !err.contains("alert"),
        "{err}"
    );
    let (code, _, err) = run(&["-T", "-c", conf.to_str().expect("text")]);
    assert!(code == 0 && !err.contains("alert"), "{err}");
    assert!(site.dir.join("logs/error.log").exists());
    let (code, _, err) = run(&["-t"]);
    assert!(code == 1 && err.contains("name a configuration with -c FILE, or with -p DIR"), "{err}");
}

#[test]
fn signals_need_a_pid_file_with_a_living_process() {
    let site = Site::new("", "");
    let pid_path = site.dir.join("logs/nginx.pid");
    let (code, _, err) = text(&site.run(&["-s", "quit"]));
    let expected =
        format!("tidegate: [error] open() \"{}\" failed (2: No such file or directory)\n", pid_path.display());
    assert_eq!((code, err), (1, expected));
    std::fs::write(&pid_path, "\n").expect("written");
    let (code, _, err) = text(&site.run(&["-s", "stop"]));
    assert_eq!((code, err), (1, format!("tidegate: [error] invalid PID number \"\" in \"{}\"\n", pid_path.display())));
    // Higher than any process number.
    std::fs::write(&pid_path, "2000000000\n").expect("written");
    let (code, _, err) = text(&site.run(&["-s", "reload"]));
    let expected = "tidegate: [alert] kill(2000000000, 1) failed (3: No such process)\n";
    assert_eq!((code, err.as_str()), (1, expected));
    std::fs::remove_file(&pid_path).expect("removed");
}

#[test]
fn directives_are_documented() {
    let (code, out, _) = run(&["directives"]);
    assert!(code == 0 && out.lines().any(|line| line.starts_with("listen ")), "{out}");
    let (code, out, _) = run(&["directives", "daemon"]);
    assert!(code == 0 && out.starts_with("Syntax:  daemon on | off;\nDefault: daemon on;\nContext: main\n"), "{out}");
    let (code, out, _) = run(&["directives", "autoindex_format"]);
    assert!(code == 0 && out.contains("Module:  autoindex"), "{out}");
    let (code, out, _) = run(&["directives", "drizzle"]);
    assert!(code == 0 && out.contains("drizzle_pass ") && out.contains("\nExample:\n\nupstream cats {\n"), "{out}");
    let (code, _, err) = run(&["directives", "no_such"]);
    assert!(code == 1 && err.contains("there is no directive or module \"no_such\""), "{err}");
}

#[test]
fn a_directory_without_logs() {
    let mut site = Site::new("", "location = / { return 200 ok; }");
    std::fs::remove_dir(site.dir.join("logs")).expect("it is empty");
    site.start();
    assert!(site.get().ends_with("\r\n\r\nok"));
    site.quit();
    assert!(site.dir.join("logs/error.log").exists());
    // A prefix that is not there is a mistake.
    let missing = site.dir.join("missing");
    let output = output(binary().arg("-p").arg(&missing));
    assert!(!output.status.success() && !missing.exists());
}
