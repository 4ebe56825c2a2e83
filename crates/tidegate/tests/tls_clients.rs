//! Certificates of clients: who has to show one, whose is accepted, and what a request can tell of it.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, ServerName, pem::PemObject};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedProtocolVersion};
use support::authority::{Authority, Secure, ask, secure};
use support::{Site, connect, free_port};

/// A site with one server for each way of asking, and the authorities of servers and clients.
struct Gate {
    site: Site,
    servers: Authority,
    clients: Authority,
    port: u16,
}

/// What a client shows.
type Identity = Option<(String, String)>;

impl Gate {
    fn start(more: &str) -> Self {
        let (site, servers, clients, port) =
            (Site::new("", ""), Authority::named("servers"), Authority::named("clients"), free_port());
        for name in ["localhost", "on.test", "optional.test", "any.test", "off.test"] {
            servers.certify(&site, name);
        }
        std::fs::write(site.dir.join("conf/clients.pem"), &clients.pem).expect("written");
        let server = |name: &str, rules: &str| {
            format!(
                "server {{ listen 127.0.0.1:{port} ssl; server_name {name}; ssl_certificate {name}.crt;\n\
                 ssl_certificate_key {name}.key; {rules} error_page 495 = /495; error_page 496 = /496;\n\
                 location = /495 {{ return 403 \"495 $ssl_client_verify\"; }}\n\
                 location = /496 {{ return 403 \"496 $ssl_client_verify\"; }}\n\
                 location / {{ return 200 \"$ssl_client_verify|$ssl_client_s_dn|$ssl_client_i_dn|$ssl_session_reused\"; }} }}\n"
            )
        };
        let trusts = "ssl_client_certificate clients.pem;";
        let mut gate = Self { site, servers, clients, port };
        gate.site.write_conf(&format!(
            "error_log logs/error.log info; pid logs/nginx.pid; events {{ }}\n\
             http {{ server {{ listen 127.0.0.1:{}; return 200 '[$ssl_client_verify]'; }} {} {} {} {} {more} }}",
            gate.site.port,
            server("off.test", ""),
            server("on.test", &format!("ssl_verify_client on; {trusts}")),
            server("optional.test", &format!("ssl_verify_client optional; {trusts}")),
            server("any.test", &format!("ssl_verify_client optional_no_ca; {trusts}")),
        ));
        gate.site.start();
        gate
    }

    fn client(&self, identity: &Identity, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.servers.certificate.clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).expect("versions");
        let builder = builder.with_root_certificates(roots);
        Arc::new(match identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain = rustls::pki_types::CertificateDer::pem_slice_iter(certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).expect("a key");
                // The builder would refuse certificates of version 1.
                let pair = CertifiedKey::new(chain.map(|one| one.expect("PEM")).collect(), key);
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(pair)))
            }
        })
    }

    fn stream(&self, client: &Arc<ClientConfig>, name: &str) -> Secure {
        let socket: TcpStream = connect(self.port).expect("the server accepts");
        secure(client, socket, name)
    }

    /// What a server answers to a client.
    fn ask(&self, client: &Arc<ClientConfig>, name: &str, host: &str) -> String {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = ask(&mut self.stream(client, name), &request);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        format!("{} {body}", &head[9..12])
    }
}

fn identity(authority: &Authority, common_name: &str) -> Identity {
    // As long as anything.
    identity_for((1975, 4096), authority, common_name)
}

/// A certificate that is good from the beginning of one year to that of another.
fn identity_for(years: (i32, i32), authority: &Authority, common_name: &str) -> Identity {
    identity_with(years, authority, common_name, &[])
}

/// As [`identity_for`], good for these purposes alone, if there are any.
fn identity_with(
    (from, until): (i32, i32),
    authority: &Authority,
    common_name: &str,
    purposes: &[ExtendedKeyUsagePurpose],
) -> Identity {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    [params.not_before, params.not_after] = [from, until].map(|year| rcgen::date_time_ymd(year, 1, 1));
    params.extended_key_usages = purposes.to_vec();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Tide, Inc");
    params.distinguished_name.push(DnType::CommonName, common_name);
    let certificate = params.signed_by(&key, &authority.issuer).expect("signed");
    Some((certificate.pem(), key.serialize_pem()))
}

#[test]
fn each_way_of_asking() {
    let mut gate = Gate::start("");
    let stranger = identity(&Authority::named("stranger"), "mallory");
    let known = identity(&gate.clients, "alice");
    for (years, why) in [((2001, 2002), "certificate has expired"), ((4000, 4001), "certificate is not yet valid")] {
        let client = gate.client(&identity_for(years, &gate.clients, "alice"), &[&TLS12, &TLS13]);
        // Any authority will do at the last one, not any time.
        for server in ["on.test", "optional.test", "any.test"] {
            assert_eq!(gate.ask(&client, server, server), format!("403 495 FAILED:{why}"));
        }
        assert_eq!(gate.ask(&client, "off.test", "off.test"), "200 NONE|||.");
    }
    for version in [&TLS12, &TLS13] {
        let [nobody, stranger, known] = [&None, &stranger, &known].map(|identity| gate.client(identity, &[version]));
        let name = "CN=alice,O=Tide\\, Inc|";
        for (server, client, expected) in [
            ("off.test", &nobody, "200 NONE|||.".to_owned()),
            ("off.test", &known, "200 NONE|||.".to_owned()),
            ("on.test", &nobody, "403 496 NONE".to_owned()),
            ("on.test", &stranger, "403 495 FAILED:unable to verify the first certificate".to_owned()),
            ("on.test", &known, format!("200 SUCCESS|{name}CN=clients|.")),
            ("optional.test", &nobody, "200 NONE|||.".to_owned()),
            ("optional.test", &stranger, "403 495 FAILED:unable to verify the first certificate".to_owned()),
            ("optional.test", &known, format!("200 SUCCESS|{name}CN=clients|.")),
            ("any.test", &nobody, "200 NONE|||.".to_owned()),
            (
                "any.test",
                &stranger,
                "200 FAILED:unable to verify the first certificate|CN=mallory,O=Tide\\, Inc|CN=stranger|.".to_owned(),
            ),
        ] {
            assert_eq!(gate.ask(client, server, server), expected, "{server}");
        }
    }
    assert!(support::get(gate.site.port, "/").expect("an answer").ends_with("\r\n\r\n[]"));
    gate.site.wait_for_log("client sent no required SSL certificate while reading client request headers");
    gate.site.wait_for_log("client SSL certificate verify error: (21:unable to verify the first certificate)");
    gate.site.quit();
}

#[test]
fn a_certificate_for_servers_is_none_for_clients() {
    let mut gate = Gate::start("");
    let ask = |authority: &Authority, server: &str| {
        let identity = identity_with((1975, 4096), authority, "alice", &[ExtendedKeyUsagePurpose::ServerAuth]);
        gate.ask(&gate.client(&identity, &[&TLS13]), server, server)
    };
    let stranger = Authority::named("stranger");
    for server in ["on.test", "any.test"] {
        assert_eq!(ask(&gate.clients, server), "403 495 FAILED:unsuitable certificate purpose");
    }
    assert_eq!(ask(&stranger, "on.test"), "403 495 FAILED:unable to verify the first certificate");
    // Any authority will do, and that its key is not known is the last fault.
    let accepted = "200 FAILED:unable to verify the first certificate|CN=alice,O=Tide\\, Inc|CN=stranger|.";
    assert_eq!(ask(&stranger, "any.test"), accepted);
    gate.site.quit();
}

#[test]
fn sessions_and_names_open_no_back_door() {
    let mut gate = Gate::start("");
    let known = gate.client(&identity(&gate.clients, "alice"), &[&TLS13]);
    let nobody = gate.client(&None, &[&TLS13]);
    // A session that is resumed still has its certificate, and is still verified.
    for expected in [".", "r"] {
        let answer = gate.ask(&known, "on.test", "on.test");
        assert!(answer.starts_with("200 SUCCESS|CN=alice") && answer.ends_with(expected), "{answer}");
    }
    // One name in the handshake, another in the request: nobody has asked for a certificate.
    for client in [&nobody, &known] {
        assert!(gate.ask(client, "off.test", "on.test").starts_with("421 "));
        assert!(gate.ask(client, "optional.test", "on.test").starts_with("421 "));
        // Who asks for less gets it.
        assert!(gate.ask(client, "on.test", "off.test").starts_with("200 "));
    }
    gate.site.wait_for_log("client attempted to request the server name different from the one that was negotiated");
    gate.site.quit();
}

#[test]
fn certificates_in_variables() {
    let known = |gate: &Gate| identity(&gate.clients, "alice");
    let mut gate = Gate::start("");
    let pair = known(&gate);
    let mut server = std::fs::read_to_string(gate.site.dir.join("conf/nginx.conf")).expect("a configuration");
    let shown = "$ssl_client_raw_cert|$ssl_client_cert|$ssl_client_escaped_cert|$ssl_client_fingerprint|$ssl_client_serial|\
                 $ssl_client_v_start|$ssl_client_v_end|$ssl_client_v_remain|$ssl_client_s_dn_legacy|$ssl_curve|$ssl_curves|$ssl_ciphers";
    server = server.replace("$ssl_client_verify|$ssl_client_s_dn|$ssl_client_i_dn|$ssl_session_reused", shown);
    gate.site.quit();
    gate.site.write_conf(&server);
    gate.site.start();
    let client = gate.client(&pair, &[&TLS13]);
    let answer = gate.ask(&client, "on.test", "on.test");
    let parts: Vec<&str> = answer.strip_prefix("200 ").expect("a status").split('|').collect();
    let pem = pair.expect("an identity").0.replace("\r\n", "\n");
    assert_eq!(parts[0], pem);
    assert_eq!(parts[1], pem.trim_end().replace('\n', "\n\t"));
    assert_eq!(
        parts[2],
        pem.replace('\n', "%0A").replace(' ', "%20").replace('+', "%2B").replace('/', "%2F").replace('=', "%3D")
    );
    // As openssl shows them.
    let file = gate.site.dir.join("client.pem");
    std::fs::write(&file, &pem).expect("written");
    let arguments = ["x509", "-noout", "-fingerprint", "-sha1", "-serial", "-dates", "-in"];
    let output = std::process::Command::new("openssl").args(arguments).arg(&file).output().expect("openssl runs");
    let told = String::from_utf8(output.stdout).expect("text");
    let value = |name: &str| {
        let line = told.lines().find(|line| line.to_ascii_lowercase().starts_with(name)).expect("a line");
        line.split_once('=').expect("a value").1.to_owned()
    };
    assert_eq!(parts[3], value("sha1 fingerprint").replace(':', "").to_ascii_lowercase());
    assert_eq!(parts[4], value("serial"));
    assert_eq!((parts[5], parts[6]), (value("notbefore").as_str(), value("notafter").as_str()));
    assert!(parts[7].parse::<u32>().is_ok_and(|days| days > 365), "{}", parts[7]);
    assert_eq!(parts[8], "/O=Tide, Inc/CN=alice");
    assert_eq!((parts[9], parts[10]), ("X25519MLKEM768", "X25519MLKEM768:X25519:prime256v1:secp384r1"));
    assert!(parts[11].starts_with("TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256:"), "{}", parts[11]);
    gate.site.quit();
}

/// Runs openssl in `dir`.
fn openssl(dir: &Path, arguments: &str) {
    let output = Command::new("openssl").current_dir(dir).args(arguments.split(' ')).output().expect("openssl runs");
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Whatever `openssl` encrypts a key with, in its new format and in its old one.
#[test]
fn keys_that_openssl_encrypts_are_opened() {
    let site = Site::new("", "");
    let conf = site.dir.join("conf");
    std::fs::write(conf.join("words"), "wrong\ntide\n").expect("written");
    openssl(&conf, "genrsa -out rsa.key 2048");
    openssl(&conf, "ecparam -name prime256v1 -genkey -noout -out ec.key");
    for kind in ["rsa", "ec"] {
        openssl(&conf, &format!("req -x509 -key {kind}.key -subj /CN={kind}.test -days 9 -out {kind}.crt"));
    }
    for (kind, arguments) in [
        ("rsa", "rsa -traditional -aes256 -passout pass:tide"),
        ("rsa", "rsa -traditional -aes192 -passout pass:tide"),
        ("rsa", "rsa -traditional -des3 -passout pass:tide"),
        ("ec", "ec -aes128 -passout pass:tide"),
        ("ec", "ec -des3 -passout pass:tide"),
        ("ec", "pkcs8 -topk8 -passout pass:tide"),
    ] {
        openssl(&conf, &format!("{arguments} -in {kind}.key -out sealed.key"));
        let check = |more: &str| {
            site.write_conf(&format!(
                "events {{ }} http {{ server {{ listen 127.0.0.1:4433 ssl; ssl_certificate {kind}.crt;\n\
                 ssl_certificate_key sealed.key; {more} }} }}"
            ));
            String::from_utf8(site.run(&["-t"]).stderr).expect("text")
        };
        let (opened, closed) = (check("ssl_password_file words;"), check(""));
        assert!(opened.contains("test is successful"), "{arguments}: {opened}");
        assert!(closed.contains("the key is encrypted, and no password opens it"), "{arguments}: {closed}");
    }
}

/// A certificate of version 1 for a new key, signed with `<issuer>.crt` and `<issuer>.key`.
fn version_1(dir: &Path, name: &str, issuer: &str) -> Identity {
    let request = format!(
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
    );
    openssl(dir, &request);
    openssl(
        dir,
        &format!(
            "x509 -req -in {name}.csr -CA {issuer}.crt -CAkey {issuer}.key -CAcreateserial -days 9 -out {name}.crt"
        ),
    );
    let [certificate, key] =
        ["crt", "key"].map(|end| std::fs::read_to_string(dir.join(format!("{name}.{end}"))).expect("written"));
    Some((certificate, key))
}

#[test]
fn certificates_that_only_openssl_would_make() {
    let mut gate = Gate::start("");
    gate.site.quit();
    let dir = gate.site.dir.join("conf");
    // An authority and one below it, and a certificate that is no authority's.
    std::fs::write(dir.join("root.crt"), &gate.clients.pem).expect("written");
    std::fs::write(dir.join("root.key"), gate.clients.issuer.key().serialize_pem()).expect("written");
    let below = |name: &str, is_ca: IsCa| {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = is_ca;
        let certificate = params.signed_by(&key, &gate.clients.issuer).expect("signed").pem();
        std::fs::write(dir.join(format!("{name}.crt")), &certificate).expect("written");
        std::fs::write(dir.join(format!("{name}.key")), key.serialize_pem()).expect("written");
        (certificate, key.serialize_pem())
    };
    let authority = below("middle", IsCa::Ca(BasicConstraints::Constrained(0)));
    let impostor = below("impostor", IsCa::NoCa);
    let behind = |identity: Identity, chain: &str| identity.map(|(certificate, key)| (certificate + chain, key));
    let old = version_1(&dir, "old", "root");
    let far = version_1(&dir, "far", "middle");
    let forged = version_1(&dir, "forged", "impostor");
    openssl(
        &dir,
        "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout alone.key -out alone.crt -subj /CN=clients -days 9",
    );
    let homonym = version_1(&dir, "homonym", "alone");
    let ask = |gate: &Gate, identity: &Identity| gate.ask(&gate.client(identity, &[&TLS13]), "any.test", "any.test");
    gate.site.start();
    for (identity, expected) in [
        (&old, "200 SUCCESS|CN=old"),
        (&Some(authority.clone()), "200 SUCCESS|"),
        (&behind(far.clone(), &authority.0), "200 SUCCESS|CN=far"),
        (&far, "200 FAILED:unable to verify the first certificate"),
        (&behind(forged, &impostor.0), "403 495 FAILED:invalid CA certificate"),
        (&homonym, "200 FAILED:unable to verify the first certificate"),
    ] {
        let answer = ask(&gate, identity);
        assert!(answer.starts_with(expected), "{expected}: {answer}");
    }
    gate.site.quit();
    // A list of version 1, in which one of them is.
    std::fs::write(dir.join("index"), "").expect("written");
    let config = "[ca]\ndefault_ca=a\n[a]\ndatabase=index\ndefault_md=sha256\ndefault_crl_days=9\n";
    std::fs::write(dir.join("ca.conf"), config).expect("written");
    openssl(&dir, "ca -config ca.conf -revoke old.crt -cert root.crt -keyfile root.key");
    openssl(&dir, "ca -config ca.conf -gencrl -cert root.crt -keyfile root.key -out root.crl");
    let young = version_1(&dir, "young", "root");
    let conf = std::fs::read_to_string(dir.join("nginx.conf")).expect("a configuration");
    let rules = "ssl_crl root.crl; ssl_verify_client optional_no_ca;";
    gate.site.write_conf(&conf.replace("ssl_verify_client optional_no_ca;", rules));
    gate.site.start();
    for (identity, expected) in [
        (&old, "403 495 FAILED:certificate revoked"),
        (&young, "200 SUCCESS|CN=young"),
        (&behind(far, &authority.0), "403 495 FAILED:unable to get certificate CRL"),
    ] {
        let answer = ask(&gate, identity);
        assert!(answer.starts_with(expected), "{expected}: {answer}");
    }
    gate.site.quit();
}

#[test]
fn handshakes_that_are_rejected() {
    let port = free_port();
    let mut gate = Gate::start(&format!(
        "server {{ listen 127.0.0.1:{port} ssl default_server; ssl_reject_handshake on; }}\n\
         server {{ listen 127.0.0.1:{port} ssl; server_name on.test; ssl_certificate on.test.crt;\n\
         ssl_certificate_key on.test.key; return 200 here; }}"
    ));
    gate.port = port;
    let client = gate.client(&None, &[&TLS12, &TLS13]);
    assert_eq!(gate.ask(&client, "on.test", "on.test"), "200 here");
    let mut stream = gate.stream(&client, "off.test");
    let error = std::io::Write::write_all(&mut stream, b"x").and_then(|()| std::io::Write::flush(&mut stream));
    let error = error.expect_err("no handshake").to_string();
    assert!(error.contains("UnrecognizedName") || error.contains("UnrecognisedName"), "{error}");
    gate.site.quit();
}

/// A client that closes at once is gone before the server has sent its tickets, which it may do without.
#[test]
fn what_a_client_says_with_the_end_of_its_handshake_counts() {
    const CLIENTS: usize = 20;
    let (mut site, authority) = (Site::new("", ""), Authority::new());
    authority.certify(&site, "localhost");
    let path = site.dir.join("tls.sock");
    site.write_conf(&format!(
        "error_log logs/error.log info; pid logs/nginx.pid; events {{ }}\n\
         http {{ server {{ listen 127.0.0.1:{}; listen unix:{} ssl; ssl_certificate localhost.crt; ssl_certificate_key localhost.key;\n\
         location / {{ content_by_lua_block {{ ngx.log(ngx.WARN, 'served ', ngx.var.arg_n) }} }} }} }}",
        site.port,
        path.display()
    ));
    site.start();
    let client = authority.client(&[&TLS13]);
    for n in 0..CLIENTS {
        let mut socket = UnixStream::connect(&path).expect("the server accepts");
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = ClientConnection::new(client.clone(), name).expect("a client");
        while tls.is_handshaking() {
            if tls.wants_write() {
                tls.write_tls(&mut socket).expect("sent");
            } else {
                tls.read_tls(&mut socket).expect("read");
                tls.process_new_packets().expect("the server is understood");
            }
        }
        let request = format!("GET /?n={n} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        tls.writer().write_all(request.as_bytes()).expect("memory");
        // The end of the handshake and the request in one piece.
        let mut last = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut last).expect("memory");
        }
        socket.write_all(&last).expect("sent");
    }
    for n in 0..CLIENTS {
        site.wait_for_log(&format!("served {n},"));
    }
    site.quit();
}

#[test]
fn a_session_is_resumed_only_where_the_same_certificate_is_shown() {
    let (mut site, authority) = (Site::new("", ""), Authority::new());
    let [port, other_site, same_certificate] = [(); 3].map(|()| free_port());
    for name in ["one.test", "two.test"] {
        authority.certify(&site, name);
    }
    let server = |port: u16, name: &str, certificate: &str| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; server_name {name}; ssl_certificate {certificate}.crt;\n\
             ssl_certificate_key {certificate}.key; return 200 '$ssl_session_reused'; }}\n"
        )
    };
    for cache in ["", "ssl_session_tickets off; ssl_session_cache shared:tls:1m;"] {
        site.write_conf(&format!(
            "pid logs/nginx.pid; events {{ }} http {{ {cache} server {{ listen 127.0.0.1:{}; return 200 ok; }} {} {} {} }}",
            site.port,
            server(port, "one.test", "one.test"),
            server(other_site, "two.test", "two.test"),
            server(same_certificate, "three.test", "one.test"),
        ));
        site.start();
        for version in [&TLS12, &TLS13] {
            let client = authority.client(&[version]);
            let at = |port: u16| secure(&client, connect(port).expect("the server accepts"), "one.test");
            let answers = [port, port, same_certificate].map(|port| ask(&mut at(port), "GET / HTTP/1.0\r\n\r\n"));
            let reused = answers.map(|answer| answer.ends_with("\r\n\r\nr"));
            assert_eq!(reused, [false, true, true], "{cache}");
            // Whoever is led to another site by somebody on the way learns that it is another one.
            let error = at(other_site).write_all(b"GET / HTTP/1.0\r\n\r\n").expect_err("another certificate");
            assert!(error.to_string().contains("certificate"), "{error}");
        }
        site.quit();
    }
}

#[test]
fn who_was_not_asked_for_a_certificate_is_asked_when_the_rules_change() {
    for version in [&TLS12, &TLS13] {
        let mut gate = Gate::start("");
        let anna = gate.client(&identity(&gate.clients, "anna"), &[version]);
        let ask = |client| gate.ask(client, "off.test", "off.test");
        assert_eq!(ask(&anna), "200 NONE|||.");
        assert_eq!(ask(&anna), "200 NONE|||r");
        let conf = std::fs::read_to_string(gate.site.dir.join("conf/nginx.conf")).expect("written before");
        let rules = "off.test.key; ssl_verify_client on; ssl_client_certificate clients.pem;";
        gate.site.write_conf(&conf.replace("off.test.key;", rules));
        gate.site.signal(nix::sys::signal::Signal::SIGHUP);
        let nobody = gate.client(&None, &[version]);
        support::eventually("the rules are new", || ask(&nobody).starts_with("403 496").then_some(()));
        let dn = "CN=anna,O=Tide\\, Inc|CN=clients";
        assert_eq!(ask(&anna), format!("200 SUCCESS|{dn}|."));
        assert_eq!(ask(&anna), format!("200 SUCCESS|{dn}|r"));
        gate.site.quit();
    }
}
