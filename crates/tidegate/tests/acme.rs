//! Certificates that come by themselves: from Pebble, by both kinds of proof, through refusals, outages and restarts.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use support::pebble::{Pebble, any_server};
use support::{Site, eventually, free_port};
use tidegate_tls::describe::Description;

const TELLING: &str = "error_log logs/error.log notice; pid logs/nginx.pid; worker_processes 2; events { }";

/// An `acme_issuer` that trusts a Pebble.
fn issuer(pebble: &Pebble, more: &str) -> String {
    format!(
        "acme_issuer test {{ uri https://localhost:{}/dir; ssl_trusted_certificate pebble.crt; contact me@one.test;\n\
         accept_terms_of_service; {more} }}\n",
        pebble.port
    )
}

/// Issuer and serial number of the certificate that a server shows for a name.
#[track_caller]
fn shown(port: u16, name: &str) -> (String, String) {
    let stream = any_server(port, name);
    let certificate = &stream.conn.peer_certificates().expect("a certificate")[0];
    let description = Description::of(certificate).expect("a certificate");
    (description.issuer(), description.serial())
}

/// Waits until so many certificates for these names have come since the site was made, and tells the serial number of the
/// one that is shown for the first of them.
#[track_caller]
fn wait_for_certificate(site: &Site, port: u16, names: &str, count: usize) -> String {
    let told = format!("the certificate for {names} has come");
    eventually(&told, || (site.log().matches(&told).count() >= count).then_some(()));
    let first = names.split(',').next().expect("a name");
    let (issuer, serial) = shown(port, first);
    assert!(issuer.contains("Pebble"), "{issuer}");
    serial
}

/// The files of the directory in which the issuer keeps what it has.
fn kept(site: &Site) -> Vec<PathBuf> {
    let entries = fs::read_dir(site.dir.join("acme_test")).expect("a directory");
    let mut kept: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    kept.retain(|path| path.extension().is_some_and(|extension| extension == "pem"));
    kept.sort();
    kept
}

/// The files of accounts in such a directory.
fn accounts(site: &Site, directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(site.dir.join(directory)).expect("a directory");
    let mut accounts: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    accounts.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    accounts.sort();
    accounts
}

#[test]
fn certificates_come_when_the_authority_does_and_stay() {
    let (mut site, port) = (Site::new("", ""), free_port());
    let mut pebble = Pebble::new(&site, site.port, port);
    let conf = format!(
        "{TELLING} http {{ {}\n\
         server {{ listen 127.0.0.1:{}; server_name localhost; rewrite ^ /elsewhere; return 403; }}\n\
         server {{ listen 127.0.0.1:{port} ssl; server_name one.test .www.one.test *.wild.test; return 200 one;\n\
         acme_certificate test; ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }}\n\
         server {{ listen 127.0.0.1:{port} ssl; server_name two.test; ssl_certificate auto; return 200 two; }} }}",
        // Pebble takes any profile for those who name none.
        issuer(&pebble, "profile default;"),
        site.port
    );
    site.write_conf(&conf);
    let listed = String::from_utf8(site.run(&["-t"]).stderr).expect("text");
    assert!(listed.contains("\"*.wild.test\" is a pattern"), "{listed}");
    // The authority is away: handshakes come to an end by a certificate of our own.
    site.start();
    assert_eq!(shown(port, "one.test").0, "CN=provisional certificate");
    site.wait_for_log("acme issuer \"test\" gave no certificate for one.test, www.one.test:");
    site.wait_for_log("gave no certificate for two.test:");
    assert!(certificates(&site).contains("none yet: one.test, www.one.test, "));
    pebble.start();
    let one = wait_for_certificate(&site, port, "one.test, www.one.test", 1);
    assert_eq!(shown(port, "www.one.test"), shown(port, "one.test"));
    let two = wait_for_certificate(&site, port, "two.test", 1);
    assert_ne!(one, two);
    let log = site.log();
    assert!(log.contains("the certificate for one.test, www.one.test has come, and ends on "), "{log}");

    // Only their owner reads what has keys in it.
    let mode = |path: PathBuf| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(kept(&site).len(), 2);
    for path in kept(&site).into_iter().chain(accounts(&site, "acme_test")) {
        assert_eq!(mode(path), 0o600);
    }
    let list = certificates(&site);
    assert!(list.starts_with("89 days, until ") && list.contains(" GMT: one.test, www.one.test, "), "{list}");

    // They outlive reloads and restarts, without the authority.
    pebble.stop();
    site.signal(nix::sys::signal::Signal::SIGHUP);
    site.wait_for_log("reconfiguring");
    assert_eq!(shown(port, "one.test").1, one);
    site.quit();
    site.start();
    assert_eq!(shown(port, "one.test").1, one);
    assert_eq!(shown(port, "two.test").1, two);
    site.quit();

    // An authority that has forgotten the account, and files that are torn.
    for path in kept(&site) {
        let text = fs::read(&path).expect("read");
        fs::write(&path, &text[..text.len() / 2]).expect("written");
    }
    pebble.start();
    site.start();
    assert_ne!(wait_for_certificate(&site, port, "one.test, www.one.test", 2), one);
    assert!(site.log().contains(".pem\" is of no use: "));
    site.quit();
}

#[test]
fn names_and_addresses_are_proved_by_handshakes() {
    let (mut site, port) = (Site::new("", ""), free_port());
    let mut pebble = Pebble::new(&site, free_port(), port);
    site.write_conf(&format!(
        "{TELLING} http {{ {}\n\
         server {{ listen 127.0.0.1:{}; return 200 ok; }}\n\
         server {{ listen 127.0.0.1:{port} ssl; server_name three.test; return 200 three;\n\
         acme_certificate test three.test 127.0.0.1 key=ecdsa:384;\n\
         ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }} }}",
        issuer(&pebble, "challenge tls-alpn-01; profile brief require; state_path state;"),
        site.port
    ));
    pebble.start();
    site.start();
    let first = wait_for_certificate(&site, port, "three.test, 127.0.0.1", 1);
    let list = certificates(&site);
    assert!(list.starts_with("0 days, until "), "{list}");
    assert!(list.contains(": three.test, 127.0.0.1, ") && list.contains("/state/three.test-"), "{list}");
    site.quit();

    // Whoever asks for a proof while there is none to give is refused; others are served.
    site.start();
    let mut client =
        std::sync::Arc::unwrap_or_clone(tidegate_tls::client::ClientOptions::default().client().expect("a client"));
    client.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let socket = support::connect(port).expect("the server accepts");
    let mut stream = support::authority::secure(&client.into(), socket, "three.test");
    let refused = stream.conn.complete_io(&mut stream.sock).expect_err("there is nothing to prove");
    assert!(refused.to_string().contains("UnrecognisedName"), "{refused}");
    assert_eq!(shown(port, "three.test").1, first);

    // The authority wants it replaced: that is asked for at each start.
    let path = fs::read_dir(site.dir.join("state")).expect("a directory");
    let path =
        path.map(|entry| entry.expect("an entry").path()).find(|path| path.extension().is_some_and(|e| e == "pem"));
    let text = fs::read_to_string(path.expect("a certificate")).expect("text");
    let certificate = &text[text.find("-----BEGIN CERTIFICATE").expect("a certificate")..];
    site.quit();
    pebble.suggest(certificate, "2020-01-01T00:00:00Z", "2020-01-02T00:00:00Z");
    site.start();
    assert_ne!(wait_for_certificate(&site, port, "three.test, 127.0.0.1", 2), first);
    site.quit();
}

#[test]
fn keys_are_of_the_kind_that_is_asked_for() {
    let (mut site, port) = (Site::new("", ""), free_port());
    let mut pebble = Pebble::new(&site, free_port(), port);
    let server = |name: &str, key: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; server_name {name}; acme_certificate test key={key}; return 200 ok;\n\
             ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }}\n"
        )
    };
    let conf = |last: &str| {
        let issuer = issuer(&pebble, "challenge tls-alpn-01;");
        let servers = [server("eight.test", "rsa"), server("nine.test", "rsa:3072"), server("ten.test", last)].concat();
        format!("{TELLING} http {{ {issuer} server {{ listen 127.0.0.1:{}; return 200 ok; }} {servers} }}", site.port)
    };
    site.write_conf(&conf("ecdsa:521"));
    let refused = String::from_utf8(site.run(&["-t"]).stderr).expect("text");
    assert!(refused.contains("keys of type \"ecdsa:521\" cannot be made"), "{refused}");
    site.write_conf(&conf("ecdsa"));
    pebble.start();
    site.start();
    // rsaEncryption (RFC 8017, A.1), with the modulus behind it: its size and a zero, since its first bit is set.
    let rsa = |bytes: u16| {
        let [high, low] = (bytes + 1).to_be_bytes();
        let modulus = [0x02, 0x82, high, low, 0];
        move |certificate: &[u8]| {
            certificate.windows(9).any(|part| part == b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01")
                && certificate.windows(5).any(|part| part == modulus)
        }
    };
    for (name, expected) in [("eight.test", Some(256)), ("nine.test", Some(384)), ("ten.test", None)] {
        wait_for_certificate(&site, port, name, 1);
        let stream = any_server(port, name);
        let certificate = &stream.conn.peer_certificates().expect("a certificate")[0];
        let found = [256, 384].into_iter().find(|bytes| rsa(*bytes)(certificate));
        assert_eq!(found, expected, "{name}");
    }
    site.quit();
}

/// What `tidegate certificates` prints.
#[track_caller]
fn certificates(site: &Site) -> String {
    let mut command = support::binary();
    let output = support::output(command.arg("certificates").arg("-p").arg(&site.dir));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn refusals_are_told_and_nothing_else_suffers() {
    let (mut site, port) = (Site::new("", ""), free_port());
    // Nothing listens where the authority looks.
    let mut pebble = Pebble::new(&site, free_port(), free_port());
    let uri = format!("uri https://localhost:{}/dir; ssl_trusted_certificate pebble.crt; state_path off;", pebble.port);
    let server = |name: &str, issuer: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; server_name {name}; acme_certificate {issuer}; return 200 ok;\n\
             ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }}\n"
        )
    };
    site.write_conf(&format!(
        "{TELLING} http {{ {}\n\
         acme_issuer unwilling {{ {uri} }}\n\
         acme_issuer picky {{ {uri} accept_terms_of_service; profile gold require; }}\n\
         acme_issuer stranger {{ uri https://localhost:{}/dir; accept_terms_of_service; state_path off; }}\n\
         server {{ listen 127.0.0.1:{}; return 200 ok; }}\n {}{}{}{}{} }}",
        issuer(&pebble, ""),
        pebble.port,
        site.port,
        server("four.test", "test"),
        server("blocked.test", "test"),
        server("five.test", "unwilling"),
        server("six.test", "picky"),
        server("seven.test", "stranger"),
    ));
    pebble.start();
    site.start();
    for told in [
        "gave no certificate for four.test: \"four.test\" is not proved to be ours: ",
        "gave no certificate for blocked.test: API error: ",
        "\"unwilling\" gave no certificate for five.test: API error: ",
        "\"picky\" gave no certificate for six.test: the issuer has no profile \"gold\"",
        "\"stranger\" gave no certificate for seven.test: \"localhost:",
    ] {
        site.wait_for_log(told);
    }
    for name in ["four.test", "blocked.test", "five.test", "six.test", "seven.test"] {
        assert_eq!(shown(port, name).0, "CN=provisional certificate");
    }
    let list = certificates(&site);
    assert!(list.contains("none yet: five.test, in memory (acme issuer \"unwilling\")\n"), "{list}");
    site.quit();
}

#[test]
fn issuers_share_a_directory_and_an_account() {
    let (mut site, port) = (Site::new("", ""), free_port());
    let mut pebble = Pebble::new(&site, site.port, port);
    let issuer = |name: &str, more: &str| {
        format!(
            "acme_issuer {name} {{ uri https://localhost:{}/dir; ssl_trusted_certificate pebble.crt; state_path shared;\n\
             accept_terms_of_service; {more} }}\n",
            pebble.port
        )
    };
    let server = |issuer: &str, names: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; server_name {issuer}.test; acme_certificate {issuer} {names};\n\
             ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; return 200 ok; }}\n"
        )
    };
    site.write_conf(&format!(
        "{TELLING} http {{ {}{}{}{} server {{ listen 127.0.0.1:{}; return 200 ok; }} {}{}{}{} }}",
        issuer("one", "contact me@one.test;"),
        issuer("two", "contact me@one.test; profile default;"),
        issuer("brief", "contact me@one.test; profile brief require;"),
        issuer("other", "contact somebody.else@one.test;"),
        site.port,
        // The last two are for the same names, by different means.
        server("one", "one.test"),
        server("other", "other.test"),
        server("two", "common.test two.test"),
        server("brief", "common.test two.test"),
    ));
    pebble.start();
    site.start();
    for names in ["one.test", "other.test"] {
        site.wait_for_log(&format!("the certificate for {names} has come"));
    }
    let told = "the certificate for common.test, two.test has come";
    eventually(told, || (site.log().matches(told).count() == 2).then_some(()));
    let files = accounts(&site, "shared");
    assert_eq!(files.len(), 2, "{files:?}");
    let made = |log: &str| log.matches(": account https://localhost:").count();
    assert_eq!(
        made(&site.log()),
        2,
        "one account for three issuers, another one for the other contact: {}",
        site.log()
    );
    let list = certificates(&site);
    assert!(list.contains("89 days") && list.contains("0 days"), "{list}");
    assert!(!site.log().contains("[error]") && !site.log().contains("[warn]"), "{}", site.log());
    site.quit();

    // The authority has forgotten both accounts: each is made anew once, and no issuer removes what another has made.
    pebble.stop();
    for entry in fs::read_dir(site.dir.join("shared")).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "pem") {
            fs::remove_file(path).expect("removed");
        }
    }
    pebble.start();
    site.start();
    eventually(told, || (site.log().matches(told).count() == 4).then_some(()));
    for names in ["one.test", "other.test"] {
        let told = format!("the certificate for {names} has come");
        eventually(&told, || (site.log().matches(&told).count() == 2).then_some(()));
    }
    assert_eq!(made(&site.log()), 4, "{}", site.log());
    assert_eq!(accounts(&site, "shared"), files);
    site.quit();
}

#[test]
fn accounts_belong_to_those_of_elsewhere() {
    let (mut site, port) = (Site::new("", ""), free_port());
    let mut pebble = Pebble::new(&site, site.port, port);
    let [right, wrong] = ["A", "B"].map(|letter| letter.repeat(64));
    pebble.require_external_account("kid-1", &right);
    let issuer = |name: &str, more: &str| {
        issuer(&pebble, &format!("state_path off; {more}")).replace("acme_issuer test", &format!("acme_issuer {name}"))
    };
    let server = |issuer: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; server_name {issuer}.test; acme_certificate {issuer}; return 200 ok;\n\
             ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }}\n"
        )
    };
    fs::write(site.dir.join("conf/eab.key"), format!("{right}\n")).expect("written");
    site.write_conf(&format!(
        "{TELLING} http {{ {}{}{}{} server {{ listen 127.0.0.1:{}; return 200 ok; }} {}{}{}{} }}",
        issuer("right", "external_account_key kid-1 eab.key;"),
        issuer("wrong", &format!("external_account_key kid-1 data:{wrong};")),
        issuer("unknown", &format!("external_account_key kid-2 data:{right};")),
        issuer("without", ""),
        site.port,
        server("right"),
        server("wrong"),
        server("unknown"),
        server("without"),
    ));
    pebble.start();
    site.start();
    wait_for_certificate(&site, port, "right.test", 1);
    for name in ["wrong", "unknown", "without"] {
        site.wait_for_log(&format!("\"{name}\" gave no certificate for {name}.test: API error: "));
        assert_eq!(shown(port, &format!("{name}.test")).0, "CN=provisional certificate");
    }
    // Nobody reads the keys in a log.
    assert!(!site.log().contains(&right) && !site.log().contains(&wrong), "{}", site.log());
    site.quit();
}

#[test]
fn a_certificate_that_is_due_when_it_comes_is_asked_for_after_a_pause() {
    let (mut site, port) = (Site::new("", ""), free_port());
    let mut pebble = Pebble::new(&site, site.port, port);
    pebble.shorten(2);
    site.write_conf(&format!(
        "{TELLING} http {{ {} server {{ listen 127.0.0.1:{}; return 200 ok; }}\n\
         server {{ listen 127.0.0.1:{port} ssl; server_name one.test; acme_certificate test; return 200 ok;\n\
         ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }} }}",
        issuer(&pebble, "profile brief;"),
        site.port
    ));
    pebble.start();
    site.start();
    let told = "the time of the certificate for one.test is over by the clock of this machine; next try in ";
    site.wait_for_log(&format!("{told}10 s"));
    // It would have come several times.
    std::thread::sleep(std::time::Duration::from_secs(4));
    assert_eq!(site.log().matches("the certificate for one.test has come").count(), 1, "{}", site.log());
    site.wait_for_log(&format!("{told}60 s"));
    site.quit();
}

#[test]
fn servers_share_a_directory() {
    let (mut site, mut other) = (Site::new("", ""), Site::new("", ""));
    let [port, other_port] = [(); 2].map(|()| free_port());
    let mut pebble = Pebble::new(&site, site.port, port);
    let issuer = issuer(&pebble, &format!("state_path {};", site.dir.join("acme_test").display()));
    let trusted = fs::read(site.dir.join("conf/pebble.crt")).expect("made before");
    for (site, port) in [(&site, port), (&other, other_port)] {
        fs::write(site.dir.join("conf/pebble.crt"), &trusted).expect("written");
        site.write_conf(&format!(
            "{TELLING} http {{ {issuer} server {{ listen 127.0.0.1:{}; return 200 ok; }}\n\
             server {{ listen 127.0.0.1:{port} ssl; server_name one.test; acme_certificate test; return 200 ok;\n\
             ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }} }}",
            site.port
        ));
    }
    pebble.start();
    site.start();
    let serial = wait_for_certificate(&site, port, "one.test", 1);
    // The authority looks at the first server alone, so that the second one could not get any.
    other.start();
    eventually("the other server has it", || (shown(other_port, "one.test").1 == serial).then_some(()));
    assert_eq!(certificates(&site), certificates(&other));
    assert_eq!((kept(&site).len(), accounts(&site, "acme_test").len()), (1, 1));
    assert!(!other.log().contains("gave no certificate"), "{}", other.log());
    other.quit();
    site.quit();
}

#[test]
fn a_server_that_is_killed_goes_on_with_what_the_authority_has_done() {
    let (mut site, mut front, port) = (Site::new("", ""), Site::new("", ""), free_port());
    let mut pebble = Pebble::new(&site, site.port, port);
    for name in ["localhost.crt", "localhost.key"] {
        let name = PathBuf::from("conf").join(name);
        fs::copy(site.dir.join(&name), front.dir.join(&name)).expect("copied");
    }
    // In front of the authority: the first answers to two kinds of requests never come.
    let front_port = free_port();
    front.write_conf(&format!(
        "{TELLING} http {{ lua_shared_dict swallowed 1m;\n\
         server {{ listen 127.0.0.1:{}; return 200 ok; }}\n\
         server {{ listen 127.0.0.1:{front_port} ssl; ssl_certificate localhost.crt; ssl_certificate_key localhost.key;\n\
         location / {{ proxy_pass https://127.0.0.1:{}; proxy_set_header Host $http_host; }}\n\
         location /authority/ {{ internal; proxy_pass https://127.0.0.1:{}/; proxy_set_header Host $http_host; }}\n\
         location ~ ^/(sign-me-up|finalize-order/) {{ content_by_lua_block {{\n\
         local what, to = ngx.var[1], '/authority' .. ngx.var.uri ngx.req.read_body()\n\
         if not ngx.shared.swallowed:add(what, true) then return ngx.exec(to) end\n\
         ngx.location.capture(to, {{ method = ngx.HTTP_POST, always_forward_body = true }})\n\
         ngx.log(ngx.NOTICE, 'nobody hears what came of ', what)\n\
         while not ngx.worker.exiting() do ngx.sleep(0.1) end ngx.exit(444) }} }} }} }}",
        front.port, pebble.port, pebble.port
    ));
    site.write_conf(&format!(
        "{TELLING} http {{ acme_issuer test {{ uri https://localhost:{front_port}/dir; contact me@one.test;\n\
         ssl_trusted_certificate pebble.crt; accept_terms_of_service; }}\n\
         server {{ listen 127.0.0.1:{}; return 200 ok; }}\n\
         server {{ listen 127.0.0.1:{port} ssl; server_name one.test; acme_certificate test; return 200 ok;\n\
         ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }} }}",
        site.port
    ));
    pebble.start();
    front.start();
    for what in ["sign-me-up", "finalize-order/"] {
        site.start();
        front.wait_for_log(&format!("nobody hears what came of {what}"));
        site.kill();
    }
    site.start();
    wait_for_certificate(&site, port, "one.test", 1);
    let (log, told) = (pebble.log(), site.log());
    for (one, two) in [("now 1 accounts in memory", "now 2 accounts"), ("now 1 orders in the db", "now 2 orders")] {
        assert!(log.contains(one) && !log.contains(two), "{log}");
    }
    assert!(told.contains("the order for one.test of before, which is "), "{told}");
    let files = fs::read_dir(site.dir.join("acme_test")).expect("a directory");
    let mut files = files.map(|entry| entry.expect("an entry").path());
    assert!(!files.any(|path| path.extension().is_some_and(|extension| extension == "order")), "it is over");
    assert_eq!((kept(&site).len(), accounts(&site, "acme_test").len()), (1, 1));
    site.quit();
    front.quit();
}

#[test]
fn an_authority_that_wants_to_be_asked_later_is_asked_later() {
    let (mut site, front, port) = (Site::new("", ""), free_port(), free_port());
    let mut pebble = Pebble::new(&site, site.port, port);
    let server = |name: &str, issuer: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; server_name {name}; acme_certificate {issuer}; return 200 ok;\n\
             ssl_certificate $acme_certificate; ssl_certificate_key $acme_certificate_key; }}\n"
        )
    };
    let issuer = |name: &str, path: &str| {
        format!(
            "acme_issuer {name} {{ uri https://localhost:{front}/{path}; ssl_trusted_certificate pebble.crt;\n\
             accept_terms_of_service; state_path off; }}\n"
        )
    };
    // In front of the authority: it has no time for the one issuer, and no more certificates for one name of the other.
    site.write_conf(&format!(
        "{TELLING} http {{ lua_shared_dict asked 1m; {}{}\n\
         server {{ listen 127.0.0.1:{front} ssl; ssl_certificate localhost.crt; ssl_certificate_key localhost.key;\n\
         location / {{ proxy_pass https://127.0.0.1:{}; proxy_set_header Host $http_host; }}\n\
         location = /busy {{ access_log logs/busy.log; add_header Retry-After 7200 always;\n\
         return 503 '{{\"detail\":\"come tomorrow\"}}'; }}\n\
         location = /order-plz {{ access_by_lua_block {{\n\
         if ngx.shared.asked:incr('orders', 1, 0) > 1 then return end\n\
         ngx.status = 429 ngx.header.retry_after = '18446744073709551615' ngx.header.content_type = 'application/problem+json'\n\
         ngx.print('{{\"type\":\"urn:ietf:params:acme:error:rateLimited\",\"detail\":\"too many\"}}') ngx.exit(429) }}\n\
         proxy_pass https://127.0.0.1:{}; proxy_set_header Host $http_host; }} }}\n\
         server {{ listen 127.0.0.1:{}; return 200 ok; }}\n {}{}{}{}{} }}",
        issuer("limited", "dir"),
        issuer("busy", "busy"),
        pebble.port,
        pebble.port,
        site.port,
        server("one.test", "limited"),
        server("two.test", "limited"),
        server("three.test", "busy"),
        server("four.test", "busy"),
        server("five.test", "busy"),
    ));
    pebble.start();
    site.start();
    // All issuers of the authority wait, after one request.
    for name in ["three.test", "four.test", "five.test"] {
        site.wait_for_log(&format!(
            "\"busy\" gave no certificate for {name}: the authority wants to be asked later (503 "
        ));
    }
    let log = site.log();
    let told: Vec<_> = log.lines().filter(|line| line.contains("(503 ")).collect();
    for line in &told {
        assert!(line.contains(": come tomorrow); next try in 7"), "{line}");
    }
    let asked = fs::read_to_string(site.dir.join("logs/busy.log")).expect("a log");
    assert_eq!((asked.lines().count(), told.len()), (1, 3), "{asked}{log}");
    // One certificate waits; the other one comes.
    site.wait_for_log("the authority wants to be asked later (429 Too Many Requests: too many); next try in 6911");
    site.wait_for_log(".test has come");
    let log = site.log();
    assert_eq!((log.matches("(429 ").count(), log.matches(".test has come").count()), (1, 1), "{log}");
    site.quit();
}
