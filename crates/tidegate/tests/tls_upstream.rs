//! TLS with servers: who is trusted, under which name, with which certificate, and over which connections.

mod support;

use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use rcgen::{
    CertificateParams, CertificateRevocationListParams, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use support::authority::Authority;
use support::{Site, free_port};

/// A site whose server on port `tls` has a certificate for `back.test`, and the authority of that.
struct Pair {
    site: Site,
    authority: Authority,
    tls: u16,
}

impl Pair {
    fn new() -> Self {
        let (site, authority) = (Site::new("", ""), Authority::new());
        authority.certify(&site, "back.test");
        authority.certify(&site, "other.test");
        std::fs::write(site.dir.join("conf/ca.pem"), &authority.pem).expect("written");
        Self { site, authority, tls: free_port() }
    }

    /// Starts it with `locations` in the plain server; `PORT` in them is the other's.
    fn start(&mut self, http: &str, locations: &str) {
        let (plain, tls) = (self.site.port, self.tls);
        let [http, locations] = [http, locations].map(|text| text.replace("PORT", &tls.to_string()));
        self.site.write_conf(&format!(
            "error_log logs/error.log info; pid logs/nginx.pid; events {{ }}\n\
             http {{ access_log off; client_max_body_size 0; {http}\n\
             server {{ listen 127.0.0.1:{plain}; {locations} }}\n\
             server {{ listen 127.0.0.1:{tls} ssl; ssl_certificate back.test.crt; ssl_certificate_key back.test.key;\n\
             location / {{ return 200 '$scheme $host [$ssl_server_name] $ssl_protocol $ssl_cipher $connection_requests'; }}\n\
             location /echo {{ content_by_lua_block {{ ngx.req.read_body() local file = ngx.req.get_body_file()\n\
             ngx.print(file and io.open(file, 'rb'):read('*a') or ngx.req.get_body_data() or '') }} }}\n\
             location /moved {{ return 302 https://$http_host/there; }} }} }}"
        ));
        self.site.start();
    }

    fn get(&self, path: &str) -> String {
        support::get(self.site.port, path).expect("an answer")
    }

    #[track_caller]
    fn body(&self, path: &str) -> String {
        let answer = self.get(path);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}\n{}", self.site.log());
        answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
    }

    #[track_caller]
    fn is_refused(&self, path: &str, why: &str) {
        assert!(self.get(path).starts_with("HTTP/1.1 502 "), "{path}");
        self.site.wait_for_log(&format!("{why} while SSL handshaking to upstream"));
    }
}

#[test]
fn a_proxy_speaks_tls() {
    let mut pair = Pair::new();
    pair.start(
        "upstream group { server 127.0.0.1:PORT; }",
        "location /plain/ { proxy_pass https://127.0.0.1:PORT/; }\n\
         location /named/ { proxy_pass https://group/; proxy_ssl_server_name on; proxy_ssl_name Back.test:8443; }\n\
         location /group/ { proxy_pass https://group/; proxy_ssl_server_name on; }\n\
         location /variable/ { set $to https://127.0.0.1:PORT; proxy_pass $to/x; }\n\
         location /old/ { proxy_pass https://127.0.0.1:PORT/; proxy_ssl_protocols TLSv1.2;\n\
         proxy_ssl_ciphers ECDHE-ECDSA-CHACHA20-POLY1305; }\n\
         location /commands/ { proxy_pass https://127.0.0.1:PORT/; proxy_ssl_protocols TLSv1.2; proxy_ssl_conf_command Protocol ALL;\n\
         proxy_ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256; }\n\
         location /bounded/ { proxy_pass https://127.0.0.1:PORT/; proxy_ssl_conf_command MaxProtocol TLSv1.2; }\n\
         location /wrong/ { proxy_pass http://127.0.0.1:PORT/; }\n\
         location /clear/ { proxy_pass https://127.0.0.1:$server_port/; }",
    );
    let tls13 = "TLSv1.3 TLS_AES_256_GCM_SHA384 1";
    assert_eq!(pair.body("/plain/"), format!("https 127.0.0.1 [] {tls13}"));
    assert_eq!(pair.body("/named/"), format!("https group [back.test] {tls13}"));
    assert_eq!(pair.body("/group/"), format!("https group [group] {tls13}"));
    assert_eq!(pair.body("/variable/"), format!("https 127.0.0.1 [] {tls13}"));
    assert_eq!(pair.body("/old/"), "https 127.0.0.1 [] TLSv1.2 ECDHE-ECDSA-CHACHA20-POLY1305 1");
    assert_eq!(pair.body("/commands/"), "https 127.0.0.1 [] TLSv1.3 TLS_AES_128_GCM_SHA256 1");
    assert!(pair.body("/bounded/").starts_with("https 127.0.0.1 [] TLSv1.2 "));
    // Redirects of the server are its own URLs.
    let moved = pair.get("/plain/moved");
    assert!(moved.contains("/plain/there\r\n"), "{moved}");
    assert!(pair.get("/wrong/").starts_with("HTTP/1.1 400 "));
    assert!(pair.get("/clear/").starts_with("HTTP/1.1 502 "));
    pair.site.wait_for_log("SSL_do_handshake() failed (SSL: ");
    pair.site.quit();
}

#[test]
fn bodies_pass_both_ways() {
    let mut pair = Pair::new();
    pair.start(
        "",
        "location /echo { proxy_pass https://127.0.0.1:PORT; }\n\
         location /stream/ { proxy_pass https://127.0.0.1:PORT/; proxy_http_version 1.1; proxy_request_buffering off;\n\
         proxy_buffering off; }",
    );
    for path in ["/echo", "/stream/echo"] {
        for size in [1, 16 << 10, 3 << 20] {
            let sent: Vec<u8> = (0..size).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            let mut socket = support::connect(pair.site.port).expect("the server accepts");
            write!(socket, "POST {path} HTTP/1.0\r\nContent-Length: {size}\r\n\r\n").expect("sent");
            let mut reader = socket.try_clone().expect("a socket");
            let sender = std::thread::spawn({
                let sent = sent.clone();
                move || socket.write_all(&sent).map(|()| socket)
            });
            let mut answer = Vec::new();
            std::io::Read::read_to_end(&mut reader, &mut answer).expect("an answer");
            sender.join().expect("no panic").expect("sent");
            assert!(answer.ends_with(&sent), "{path} {size}: {} {}", answer.len(), pair.site.log());
        }
    }
    pair.site.quit();
}

/// A server whose answers have no length and end with the connection: those of paths with `whole` in them with a farewell, the others without.
fn server_that_cuts(authority: &Authority) -> u16 {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["back.test".to_owned()]).expect("a name");
    let certificate = params.signed_by(&key, &authority.issuer).expect("signed");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into());
    let config = Arc::new(config.expect("a pair"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let conn = ServerConnection::new(config.clone()).expect("a server");
            let mut stream = StreamOwned::new(conn, socket.expect("a client"));
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).expect("a head");
                head.push(byte[0]);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody").expect("sent");
            if String::from_utf8_lossy(&head).contains("whole") {
                stream.conn.send_close_notify();
            }
            stream.flush().expect("sent");
        }
    });
    port
}

#[test]
fn an_answer_that_may_have_been_cut_is_not_kept() {
    let mut pair = Pair::new();
    let port = server_that_cuts(&pair.authority);
    let pass = format!("proxy_pass https://127.0.0.1:{port}");
    let store = pair.site.dir.join("store");
    std::fs::create_dir(&store).expect("a directory");
    // The server's user may be another one than the test's.
    std::fs::set_permissions(&store, Permissions::from_mode(0o777)).expect("set");
    pair.start(
        "proxy_cache_path cache keys_zone=z:1m; srcache_zone zone=pages:1m;",
        &format!(
            "location /cached/ {{ proxy_cache z; proxy_cache_key $uri; proxy_cache_valid 1h;\n\
             add_header X-From $upstream_cache_status; {pass}; }}\n\
             location /stored/ {{ root store; proxy_store on; {pass}; }}\n\
             location /collected/ {{ srcache_fetch zone=pages $uri; srcache_store zone=pages $uri;\n\
             add_header X-From $srcache_fetch_status; {pass}; }}"
        ),
    );
    for (path, expected) in [
        ("/cached/cut", ["MISS", "MISS"]),
        ("/cached/whole", ["MISS", "HIT"]),
        ("/collected/cut", ["MISS", "MISS"]),
        ("/collected/whole", ["MISS", "HIT"]),
    ] {
        for expected in expected {
            let answer = pair.get(path);
            assert!(answer.contains("body") && answer.contains(&format!("X-From: {expected}\r\n")), "{path}: {answer}");
        }
    }
    for name in ["cut", "whole"] {
        assert!(pair.body(&format!("/stored/{name}")).contains("body"));
        let is_stored = store.join("stored").join(name).exists();
        assert_eq!(is_stored, name == "whole");
    }
    pair.site.wait_for_log("[warn]");
    pair.site.wait_for_log("upstream closed connection without close_notify while reading upstream");
    pair.site.quit();
}

#[test]
fn certificates_of_servers_are_verified() {
    let mut pair = Pair::new();
    let stranger = Authority::named("stranger");
    std::fs::write(pair.site.dir.join("conf/stranger.pem"), &stranger.pem).expect("written");
    let to = "proxy_pass https://127.0.0.1:PORT/; proxy_ssl_verify on;";
    pair.start(
        "",
        &format!(
            "location /good/ {{ {to} proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name back.test; }}\n\
             location /name/ {{ {to} proxy_ssl_trusted_certificate ca.pem; proxy_ssl_name other.test; }}\n\
             location /address/ {{ {to} proxy_ssl_trusted_certificate ca.pem; }}\n\
             location /stranger/ {{ {to} proxy_ssl_trusted_certificate stranger.pem; proxy_ssl_name back.test; }}\n\
             location /system/ {{ {to} proxy_ssl_name back.test; }}\n\
             location /off/ {{ {to} proxy_ssl_verify off; proxy_ssl_name other.test; }}"
        )
        .replace("proxy_ssl_verify on; proxy_ssl_verify off;", "proxy_ssl_verify off;"),
    );
    assert!(pair.body("/good/").starts_with("https "));
    assert!(pair.body("/off/").starts_with("https "));
    pair.is_refused("/name/", "upstream SSL certificate does not match \"other.test\"");
    pair.is_refused("/address/", "upstream SSL certificate does not match \"127.0.0.1\"");
    pair.is_refused("/stranger/", "upstream SSL certificate verify error: (21:unable to verify the first certificate)");
    pair.is_refused("/system/", "upstream SSL certificate verify error: (21:unable to verify the first certificate)");
    // Not by the sessions of the locations that trust more, either.
    assert!(pair.body("/off/").starts_with("https "));
    pair.is_refused("/name/", "does not match \"other.test\"");
    pair.site.quit();
}

#[test]
fn revoked_servers_are_refused() {
    let mut pair = Pair::new();
    let key = rcgen::KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(vec!["back.test".to_owned()]).expect("a name");
    params.serial_number = Some(SerialNumber::from(77u64));
    let certificate = params.signed_by(&key, &pair.authority.issuer).expect("signed");
    let conf = pair.site.dir.join("conf");
    std::fs::write(conf.join("back.test.crt"), certificate.pem()).expect("written");
    std::fs::write(conf.join("back.test.key"), key.serialize_pem()).expect("written");
    for (name, serial) in [("revoked.crl", 77u64), ("good.crl", 78)] {
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2020, 1, 1),
            next_update: rcgen::date_time_ymd(2099, 1, 1),
            crl_number: SerialNumber::from(1u64),
            issuing_distribution_point: None,
            revoked_certs: vec![RevokedCertParams {
                serial_number: SerialNumber::from(serial),
                revocation_time: rcgen::date_time_ymd(2020, 1, 1),
                reason_code: None,
                invalidity_date: None,
            }],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&pair.authority.issuer).and_then(|list| list.pem()).expect("signed");
        std::fs::write(conf.join(name), list).expect("written");
    }
    let to = "proxy_pass https://127.0.0.1:PORT/; proxy_ssl_verify on; proxy_ssl_trusted_certificate ca.pem; \
              proxy_ssl_name back.test;";
    pair.start(
        "",
        &format!("location /a/ {{ {to} proxy_ssl_crl revoked.crl; }} location /b/ {{ {to} proxy_ssl_crl good.crl; }}"),
    );
    pair.is_refused("/a/", "upstream SSL certificate verify error: (23:certificate revoked)");
    assert!(pair.body("/b/").starts_with("https "));
    pair.site.quit();
}

#[test]
fn kept_connections_serve_only_their_like() {
    let mut pair = Pair::new();
    let keep = "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_ssl_server_name on;";
    pair.start(
        "upstream group { server 127.0.0.1:PORT; keepalive 8; }",
        &format!(
            "location /one/ {{ proxy_pass https://group/; {keep} proxy_ssl_name one.test; }}\n\
             location /two/ {{ proxy_pass https://group/; {keep} proxy_ssl_name two.test; }}\n\
             location /strict/ {{ proxy_pass https://group/; {keep} proxy_ssl_name back.test; proxy_ssl_verify on;\n\
             proxy_ssl_trusted_certificate ca.pem; }}\n\
             location /lax/ {{ proxy_pass https://group/; {keep} proxy_ssl_name back.test; }}\n\
             location /clear/ {{ proxy_pass http://group/; {keep} }}"
        ),
    );
    let requests = |path: &str| pair.body(path).rsplit(' ').next().map(str::to_owned);
    assert_eq!(requests("/one/").as_deref(), Some("1"));
    assert_eq!(requests("/one/").as_deref(), Some("2"));
    assert_eq!(requests("/two/").as_deref(), Some("1"));
    assert_eq!(requests("/lax/").as_deref(), Some("1"));
    assert_eq!(requests("/strict/").as_deref(), Some("1"));
    assert_eq!(requests("/lax/").as_deref(), Some("2"));
    assert_eq!(requests("/strict/").as_deref(), Some("2"));
    // A connection of its own, on which the server wants TLS.
    assert!(pair.get("/clear/").starts_with("HTTP/1.1 400 "));
    pair.site.quit();
}

#[test]
fn a_balancer_leaves_tls_out_and_brings_it_back() {
    let mut pair = Pair::new();
    let plain = pair.site.port;
    // ?tries= has a word for each try: the port, and "-" where TLS is left out.
    pair.start(
        "upstream group { server 127.0.0.1:1; balancer_keepalive 8; balancer_by_lua_block {\n\
         local balancer = require 'ngx.balancer'\n\
         ngx.ctx.try = (ngx.ctx.try or 0) + 1\n\
         local words = {}\n\
         for minus, port in ngx.var.arg_tries:gmatch '(-?)(%d+)' do table.insert(words, { minus ~= '-', tonumber(port) }) end\n\
         local word = words[ngx.ctx.try]\n\
         if words[ngx.ctx.try + 1] then assert(balancer.set_more_tries(1)) end\n\
         assert(balancer.set_current_peer('127.0.0.1', word[2]))\n\
         assert(balancer.set_upstream_tls(word[1]))\n\
         assert(balancer.enable_keepalive()) } }",
        "location = /in { proxy_pass https://group/; proxy_http_version 1.1; proxy_set_header Connection ''; }\n\
         location / { return 200 $scheme; }",
    );
    let tls = pair.tls;
    let tries = |tries: String| pair.body(&format!("/in?tries={tries}"));
    assert!(tries(format!("{tls}")).starts_with("https group "));
    assert_eq!(tries(format!("-{plain}")), "http");
    // Over the connection that was kept with TLS.
    assert!(tries(format!("{tls}")).ends_with(" 2"));
    // The plain server does not understand TLS.
    assert_eq!(tries(format!("{plain},-{plain}")), "http");
    // Nobody listens on port 1.
    assert!(tries(format!("-1,{tls}")).ends_with(" 3"));
    pair.site.quit();
}

#[test]
fn the_name_of_a_client_certificate_has_variables() {
    let mut pair = Pair::new();
    let inner = free_port();
    let identity = "proxy_ssl_certificate $arg_name$suffix; proxy_ssl_certificate_key $arg_name.key;";
    let shown = "set $suffix .crt; if ($arg_name = '') { set $suffix ''; }";
    let keep = "proxy_http_version 1.1; proxy_set_header Connection '';";
    pair.start(
        &format!(
            "upstream group {{ server 127.0.0.1:{inner}; keepalive 8; }}\n\
             server {{ listen 127.0.0.1:{inner} ssl; ssl_certificate back.test.crt; ssl_certificate_key back.test.key;\n\
             ssl_verify_client optional_no_ca; ssl_trusted_certificate ca.pem;\n\
             return 200 '$ssl_client_verify $ssl_client_fingerprint $ssl_session_reused $connection_requests'; }}"
        ),
        &format!(
            "{shown} {identity}\n\
             location /each {{ proxy_pass https://127.0.0.1:{inner}; }}\n\
             location /cached {{ proxy_pass https://127.0.0.1:{inner}; proxy_ssl_certificate_cache max=1; }}\n\
             location /kept {{ proxy_pass https://group; {keep} }}"
        ),
    );
    let words = |path: &str, name: &str| {
        let body = pair.body(&format!("{path}?name={name}"));
        body.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let back = words("/each", "back.test");
    let other = words("/each", "other.test");
    assert!(back[0] == "SUCCESS" && other[0] == "SUCCESS" && back[1] != other[1], "{back:?} {other:?}");
    for path in ["/each", "/cached", "/each", "/cached"] {
        // A session of the one is not resumed for the other.
        for expected in [&back, &other, &back] {
            let name = if expected == &back { "back.test" } else { "other.test" };
            assert_eq!(words(path, name)[..3], expected[..3], "{path}");
        }
    }
    // Connections serve only requests with the same certificate.
    assert_eq!(words("/kept", "back.test")[3], "1");
    assert_eq!(words("/kept", "other.test")[3], "1");
    assert_eq!(words("/kept", "back.test")[1..], [back[1].clone(), ".".to_owned(), "2".to_owned()]);
    // No name, no certificate; a name of nothing is the server's own fault.
    assert_eq!(words("/each", "")[0], "NONE");
    assert!(pair.get("/each?name=nobody").starts_with("HTTP/1.1 500 "));
    pair.site.wait_for_log("nobody.crt\": (2: No such file or directory) while SSL handshaking to upstream");
    pair.site.quit();
}

#[test]
fn sessions_are_kept_for_each_server_of_a_group() {
    let mut pair = Pair::new();
    let inner = [free_port(), free_port()];
    let server = |port: u16| {
        format!(
            "server {{ listen 127.0.0.1:{port} ssl; ssl_certificate back.test.crt; ssl_certificate_key back.test.key;\n\
             return 200 '$server_port $ssl_protocol $ssl_session_reused'; }}"
        )
    };
    let [one, two] = inner;
    pair.start(
        &format!(
            "upstream group {{ zone group 256k; server 127.0.0.1:{one}; server 127.0.0.1:{two}; }}\n{}\n{}",
            server(one),
            server(two)
        ),
        "location /old { proxy_pass https://group; proxy_ssl_protocols TLSv1.2; }\n\
         location /new { proxy_pass https://group; proxy_ssl_protocols TLSv1.3; }\n\
         location /never { proxy_pass https://group; proxy_ssl_session_reuse off; }",
    );
    for (path, version) in [("/old", "TLSv1.2"), ("/new", "TLSv1.3")] {
        let answers: Vec<String> = (0..8).map(|_| pair.body(path)).collect();
        for port in inner {
            let of_one: Vec<_> = answers.iter().filter(|answer| answer.starts_with(&port.to_string())).collect();
            let (first, later) = of_one.split_first().expect("each has its turn");
            assert_eq!(**first, format!("{port} {version} ."), "{answers:?}");
            assert!(!later.is_empty() && later.iter().all(|answer| answer.ends_with(" r")), "{answers:?}");
        }
    }
    assert!((0..4).all(|_| pair.body("/never").ends_with(" .")));
    pair.site.quit();
}

/// Scripts that read `conf/?name=`, and wait on the way.
const CHOOSES: &str = "
    proxy_ssl_certificate_by_lua_block {
        local ssl, cert = require 'ngx.ssl', require 'ngx.ssl.proxysslcert'
        local verify, proxy = require 'ngx.ssl.proxysslverify', require 'ngx.proxyssl'
        assert(ngx.get_phase() == 'proxy_ssl_cert')
        assert(not verify.get_verify_cert() and not proxy.get_tls1_version())
        ngx.sleep(0)
        local name = ngx.var.arg_name
        if name == 'refused' then return ngx.exit(ngx.ERROR) end
        if name == 'fails' then error('on purpose') end
        if name == 'cleared' then assert(cert.clear_certs()) return end
        if not name then return end
        local function read(suffix)
            local file = assert(io.open(ngx.config.prefix() .. 'conf/' .. name .. suffix))
            return file:read '*a'
        end
        if name == 'keyless.test' then assert(cert.set_cert(ssl.parse_pem_cert(read '.crt'))) return end
        if name == 'other.test' then
            assert(cert.set_der_priv_key(ssl.priv_key_pem_to_der(read '.key')))
            assert(cert.set_der_cert(ssl.cert_pem_to_der(read '.crt')))
        else
            assert(cert.set_cert(ssl.parse_pem_cert(read '.crt')))
            assert(cert.set_priv_key(ssl.parse_pem_priv_key(read '.key')))
        end
    }";

const JUDGES: &str = "
    proxy_ssl_verify_by_lua_block {
        local cert, verify = require 'ngx.ssl.proxysslcert', require 'ngx.ssl.proxysslverify'
        assert(ngx.get_phase() == 'proxy_ssl_verify')
        assert(require('ngx.proxyssl').get_tls1_version_str() == 'TLSv1.3')
        assert(verify.get_verify_cert() and verify.get_verify_result() == 0)
        assert(select(2, cert.clear_certs()) == 'API disabled in the current context')
        ngx.sleep(0)
        local number = tonumber(ngx.var.arg_verdict)
        if not number then return end
        assert(verify.set_verify_result(number) and verify.get_verify_result() == number)
    }";

#[test]
fn scripts_choose_certificates_and_judge_those_of_servers() {
    let mut pair = Pair::new();
    pair.authority.certify(&pair.site, "keyless.test");
    let inner = free_port();
    let identity = "proxy_ssl_certificate back.test.crt; proxy_ssl_certificate_key back.test.key;";
    let strict = "proxy_ssl_verify on; proxy_ssl_name other.test; proxy_ssl_trusted_certificate ca.pem;";
    pair.start(
        &format!(
            "upstream group {{ server 127.0.0.1:{inner}; keepalive 8; }}\n\
             server {{ listen 127.0.0.1:{inner} ssl; ssl_certificate back.test.crt; ssl_certificate_key back.test.key;\n\
             ssl_verify_client optional_no_ca; ssl_trusted_certificate ca.pem;\n\
             return 200 '$ssl_client_verify $ssl_client_fingerprint $connection_requests'; }}"
        ),
        &format!(
            "{identity}\n\
             location /fixed {{ proxy_pass https://127.0.0.1:{inner}; }}\n\
             location /chosen {{ proxy_pass https://127.0.0.1:{inner}; {CHOOSES} }}\n\
             location /judged {{ proxy_pass https://127.0.0.1:{inner}; {JUDGES} }}\n\
             location /strict {{ proxy_pass https://127.0.0.1:{inner}; {strict} {JUDGES} }}\n\
             location /skipped {{ proxy_pass https://127.0.0.1:{inner}; {strict} {JUDGES}\n\
             lua_upstream_skip_openssl_default_verify on; }}\n\
             location /kept {{ proxy_pass https://group; proxy_http_version 1.1; proxy_set_header Connection ''; {JUDGES} }}"
        ),
    );
    let words = |path: &str| pair.body(path).split(' ').map(str::to_owned).collect::<Vec<_>>();
    let fixed = words("/fixed");
    assert_eq!(words("/chosen"), fixed);
    assert_eq!(words("/chosen?name=back.test"), fixed);
    let other = words("/chosen?name=other.test");
    assert!(other[0] == "SUCCESS" && other[1] != fixed[1], "{other:?}");
    assert_eq!(words("/chosen?name=cleared")[0], "NONE");
    // What the one has chosen is not the next one's.
    assert_eq!(words("/chosen"), fixed);
    pair.is_refused(
        "/chosen?name=refused",
        "SSL_do_handshake() failed (SSL: error:0A0000EA:SSL routines::callback failed)",
    );
    assert!(pair.get("/chosen?name=fails").starts_with("HTTP/1.1 502 "));
    pair.site.wait_for_log("on purpose");
    assert!(pair.get("/chosen?name=keyless.test").starts_with("HTTP/1.1 500 "));
    pair.site.wait_for_log("a script has set a client certificate without its key while SSL handshaking to upstream");
    assert_eq!(words("/judged?verdict=0")[0], "SUCCESS");
    pair.is_refused("/judged?verdict=23", "upstream SSL certificate verify error: (23:certificate revoked)");
    // The script comes behind the verification by the configuration, unless it is to decide alone.
    pair.is_refused("/strict", "upstream SSL certificate does not match \"other.test\"");
    assert_eq!(words("/skipped")[0], "SUCCESS");
    pair.is_refused("/skipped?verdict=20", "(20:unable to get local issuer certificate)");
    // A connection is judged when it is opened.
    assert_eq!(words("/kept")[2], "1");
    assert_eq!(words("/kept?verdict=23")[2], "2");
    pair.site.quit();
}

#[test]
fn settings_that_cannot_work_are_told() {
    let pair = Pair::new();
    let check = |location: &str, expected: &str| {
        let location = format!("location / {{ proxy_pass https://127.0.0.1:1; {location} }}");
        pair.site.write_conf(&format!("events {{ }}\nhttp {{ server {{ listen 127.0.0.1:4433; {location} }} }}\n"));
        let output = pair.site.run(&["-t"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(expected), "{location}: {text}");
        output.status.success()
    };
    assert!(!check("proxy_ssl_verify on; proxy_ssl_trusted_certificate none;", "cannot load certificate \""));
    assert!(!check("proxy_ssl_certificate back.test.crt;", "no \"proxy_ssl_certificate_key\" is defined"));
    let mixed = "proxy_ssl_certificate back.test.crt; proxy_ssl_certificate_key other.test.key;";
    assert!(!check(mixed, "bad client certificate"));
    assert!(!check("proxy_ssl_ciphers nonsense;", "no cipher match"));
    assert!(check("proxy_ssl_ciphers HIGH:DHE-RSA-AES128-GCM-SHA256;", "not offered: DHE-RSA-AES128-GCM-SHA256"));
    assert!(!check("proxy_ssl_protocols TLSv1.1;", "names no version that is safe"));
    assert!(!check("proxy_ssl_certificate $x;", "unknown \"x\" variable"));
    assert!(!check("proxy_ssl_certificate $arg_x;", "no \"proxy_ssl_certificate_key\" is defined"));
    assert!(!check("proxy_ssl_certificate_cache inactive=3;", "must have the \"max\" parameter"));
}
