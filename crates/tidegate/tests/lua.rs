//! `tidegate lua`, as a shell runs it.

mod support;

use std::io::Write;
use std::process::Stdio;

use support::{binary, finish};

/// Runs `tidegate lua` with `arguments` and `input`; compares status, standard output and a part of the standard error.
#[track_caller]
fn check(arguments: &[&str], input: &str, expected: (i32, &str, &str)) {
    let mut child = binary()
        .arg("lua")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // A script that does not read has closed the pipe.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = finish(child);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let (status, text, error) = expected;
    assert_eq!((output.status.code(), &*stdout), (Some(status), text), "{arguments:?}: {stderr}");
    assert!(stderr.contains(error) && (!error.is_empty() || stderr.is_empty()), "{arguments:?}: {stderr}");
}

#[test]
fn code_from_the_command_line() {
    check(&["-e", "ngx.say('a', 1, {'b', {2}}) print(1, nil)"], "", (0, "a1b2\n1\tnil\n", ""));
    check(&["-e", "x = 1", "-e", "print(x, ngx.get_phase())"], "", (0, "1\ttimer\n", ""));
    check(
        &["-e", "ngx.sleep(0.001) local s = ngx.socket.tcp() print(s:connect('127.0.0.1', 1))"],
        "",
        (0, "nil\tconnection refused\n", ""),
    );
    let threads = "local t = ngx.thread.spawn(function() ngx.sleep(0.001) return 7 end) print(ngx.thread.wait(t))";
    check(&["-e", threads], "", (0, "true\t7\n", ""));
    check(&["-lcjson", "-e", "print(cjson.encode({1}))"], "", (0, "[1]\n", ""));
    check(&["--shdict", "d 1m", "-e", "print((ngx.shared.d:incr('n', 1, 0)))"], "", (0, "1\n", ""));
    check(&["--http-conf", "lua_regex_match_limit 1;", "-e", "print(1)"], "", (0, "1\n", ""));
}

#[test]
fn statuses_and_errors() {
    check(&["-e", "return 3"], "", (3, "", ""));
    check(&["-e", "os.exit(4)"], "", (4, "", ""));
    check(&["-e", "io.write('kept') ngx.exit(5)"], "", (5, "kept", ""));
    check(&["-e", "error('oh no')"], "", (1, "", "ERROR: (command line -e):1: oh no\nstack traceback:"));
    check(&["-e", "x x"], "", (1, "", "ERROR: (command line -e):1: '=' expected near 'x'"));
    check(&["/no/such/file.lua"], "", (1, "", "ERROR: cannot open /no/such/file.lua"));
    check(&["--http-conf", "foo bar;", "-e", ""], "", (1, "", "unknown directive \"foo\""));
    check(&["--nonsense"], "", (2, "", "unknown option --nonsense; tidegate lua --help tells more"));
    check(&["-e", "ngx.log(ngx.ERR, 'logged')"], "", (0, "", "[lua] (command line -e):1: logged"));
    check(&["--errlog-level", "crit", "-e", "ngx.log(ngx.ERR, 'logged')"], "", (0, "", ""));
}

#[test]
fn scripts_and_the_standard_input() {
    check(&[], "#!/usr/bin/env tidegate\nprint(arg[0])", (0, "tidegate lua\n", ""));
    check(&["-", "a", "b"], "print(...)", (0, "a\tb\n", ""));
    check(&["-e", "print(io.read('*l'))"], "a line\n", (0, "a line\n", ""));
    let dir = std::env::temp_dir().join(format!("tidegate-lua-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("created");
    std::fs::write(dir.join("m.lua"), "return { name = 'm' }").expect("written");
    let script = dir.join("s.lua");
    std::fs::write(&script, "print(require('m').name, #arg, ...)").expect("written");
    let (dir_text, script) = (dir.to_string_lossy(), script.to_string_lossy());
    check(&["-I", &dir_text, &script, "-e", "x"], "", (0, "m\t2\t-e\tx\n", ""));
    std::fs::remove_dir_all(&dir).expect("removed");
}
