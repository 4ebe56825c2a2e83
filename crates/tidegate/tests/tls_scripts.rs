//! Scripts in handshakes: certificates, versions and sessions that they choose, and clients that leave meanwhile.

mod support;

use std::io::Write;
use std::net::TcpStream;

use rustls::version::{TLS12, TLS13};
use support::authority::{Authority, Secure, ask, secure};
use support::{Site, connect, free_port};

const GET: &str = "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n";

/// A site whose second port has TLS with a certificate for `localhost`, and `directives` there and in `http`.
fn site(http: &str, server: &str) -> (Site, Authority, u16) {
    let (site, authority, port) = (Site::new("", ""), Authority::new(), free_port());
    for name in ["localhost", "one.test", "two.test"] {
        authority.certify(&site, name);
    }
    let tls = "ssl_certificate localhost.crt; ssl_certificate_key localhost.key;";
    site.write_conf(&format!(
        "error_log logs/error.log info; pid logs/nginx.pid; events {{ }}\n\
         http {{ {http} server {{ listen 127.0.0.1:{}; listen 127.0.0.1:{port} ssl; {tls} {server} }} }}",
        site.port
    ));
    (site, authority, port)
}

/// The end of the handshake and of one exchange, or what went wrong.
fn exchange(mut stream: Secure) -> std::io::Result<String> {
    stream.write_all(GET.as_bytes())?;
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer)?;
    Ok(answer.split_once("\r\n\r\n").expect("a head").1.to_owned())
}

fn socket(port: u16) -> TcpStream {
    connect(port).expect("the server accepts")
}

/// Chooses a certificate by the client's name, after a wait.
const BY_NAME: &str = "
    ssl_certificate_by_lua_block {
        local ssl = require 'ngx.ssl'
        local name = ssl.server_name()
        ngx.ctx.name = name
        ngx.ctx.phase = ngx.get_phase()
        if name == 'localhost' then return end
        if name == 'slow.test' then ngx.sleep(3600) end
        ngx.sleep(0)
        local function read(suffix)
            local file = io.open(ngx.config.prefix() .. 'conf/' .. name .. suffix)
            return file and file:read '*a'
        end
        local certificate = read '.crt'
        if not certificate then return ngx.exit(ngx.ERROR) end
        assert(ssl.clear_certs())
        if name == 'one.test' then
            assert(ssl.set_cert(ssl.parse_pem_cert(certificate)))
            assert(ssl.set_priv_key(ssl.parse_pem_priv_key(read '.key')))
        else
            assert(ssl.set_der_priv_key(ssl.priv_key_pem_to_der(read '.key')))
            assert(ssl.set_der_cert(ssl.cert_pem_to_der(certificate)))
        end
        local other = io.open(ngx.config.prefix() .. 'conf/localhost.key'):read '*a'
        local ok, err = ssl.set_cert(ssl.parse_pem_cert(certificate))
        ok, err = ssl.set_priv_key(ssl.parse_pem_priv_key(other))
        if ok or not err:find 'SSL_use_PrivateKey' then return ngx.exit(ngx.ERROR) end
    }
    location / { content_by_lua_block {
        ngx.ctx.count = (ngx.ctx.count or 0) + 1
        ngx.print(ngx.ctx.name, ' ', ngx.ctx.phase, ' ', ngx.ctx.count, ' ', require 'ngx.ssl'.get_tls1_version_str())
    } }";

#[test]
fn a_script_chooses_the_certificate() {
    let (mut site, authority, port) = site("", BY_NAME);
    site.start();
    for version in [&TLS12, &TLS13] {
        let client = authority.client(&[version]);
        let shown = if version.version == rustls::ProtocolVersion::TLSv1_2 { "TLSv1.2" } else { "TLSv1.3" };
        for name in ["localhost", "one.test", "two.test"] {
            let answer = exchange(secure(&client, socket(port), name)).expect("an answer");
            assert_eq!(answer, format!("{name} ssl_cert 1 {shown}"));
        }
        let refused = exchange(secure(&client, socket(port), "none.test")).expect_err("no certificate");
        assert!(refused.to_string().contains("InternalError"), "{refused}");
    }
    // Each request begins with a copy of what the script has left.
    let client = authority.client(&[&TLS13]);
    let mut stream = secure(&client, socket(port), "one.test");
    let again = format!("{}{GET}", GET.replace("HTTP/1.0", "HTTP/1.1"));
    let answers = ask(&mut stream, &again);
    assert_eq!(answers.matches("one.test ssl_cert 1 TLSv1.3").count(), 2, "{answers}");
    site.quit();
}

#[test]
fn clients_that_leave_while_a_script_waits_harm_nobody() {
    let (mut site, authority, port) = site("", BY_NAME);
    site.start();
    let client = authority.client(&[&TLS13]);
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let mut stream = secure(&client, socket(port), "slow.test");
            stream.conn.write_tls(&mut stream.sock).expect("the first message is sent");
            stream
        })
        .collect();
    assert_eq!(exchange(secure(&client, socket(port), "one.test")).expect("an answer"), "one.test ssl_cert 1 TLSv1.3");
    drop(waiting);
    assert_eq!(exchange(secure(&client, socket(port), "two.test")).expect("an answer"), "two.test ssl_cert 1 TLSv1.3");
    site.quit();
}

#[test]
fn a_script_sees_the_first_message_and_chooses_versions() {
    let script = "
        ssl_client_hello_by_lua_block {
            local hello = require 'ngx.ssl.clienthello'
            local name = hello.get_client_hello_server_name()
            ngx.sleep(0)
            local present = {}
            for _, kind in ipairs(hello.get_client_hello_ext_present()) do present[kind] = true end
            local versions = table.concat(hello.get_supported_versions(), ',')
            local ciphers = #hello.get_client_hello_ciphers()
            ngx.ctx.hello = tostring(present[0]) .. ' ' .. versions .. ' ' .. tostring(ciphers > 1)
                .. ' ' .. tostring(hello.get_client_hello_ext(65000))
            local ok, err = hello.set_protocols { 'TLSv9' }
            ngx.ctx.hello = ngx.ctx.hello .. ' ' .. err
            if name == 'localhost' then hello.set_protocols { 'TLSv1.2' } end
        }
        location / { content_by_lua_block {
            local ok, err = require 'ngx.ssl.clienthello'.set_protocols { 'TLSv1.2' }
            ngx.print(ngx.var.ssl_protocol, ' ', ngx.ctx.hello, ' ', err) } }";
    let (mut site, authority, port) = site("", script);
    site.start();
    let client = authority.client(&[&TLS13, &TLS12]);
    let told = exchange(secure(&client, socket(port), "localhost")).expect("an answer");
    let expected = "true TLSv1.3,TLSv1.2 true nil invalid protocols failed API disabled in the current context";
    assert_eq!(told, format!("TLSv1.2 {expected}"));
    site.quit();
}

#[test]
fn scripts_keep_sessions() {
    let http = "lua_shared_dict sessions 1m;
        ssl_session_store_by_lua_block {
            local session = require 'ngx.ssl.session'
            ngx.sleep(0)
            ngx.shared.sessions:set(session.get_session_id(), session.get_serialized_session())
        }
        ssl_session_fetch_by_lua_block {
            local session = require 'ngx.ssl.session'
            ngx.sleep(0)
            local found = ngx.shared.sessions:get(session.get_session_id())
            local ok, err = session.set_serialized_session('garbage')
            ngx.shared.sessions:set('garbage', err)
            if found then assert(session.set_serialized_session(found)) end
        }";
    let server = "ssl_session_tickets off; location / { content_by_lua_block {
        ngx.print(ngx.var.ssl_session_reused, ' ', ngx.shared.sessions:get 'garbage') } }";
    let (mut site, authority, port) = site(http, server);
    site.start();
    let client = authority.client(&[&TLS12]);
    assert_eq!(exchange(secure(&client, socket(port), "localhost")).expect("an answer"), ". nil");
    let again = exchange(secure(&client, socket(port), "localhost")).expect("an answer");
    assert_eq!(again, "r failed to de-serialize session");
    site.quit();
}

#[test]
fn a_session_in_a_ticket_is_asked_of_no_script() {
    let http = "lua_shared_dict sessions 1m;
        ssl_session_fetch_by_lua_block { ngx.shared.sessions:incr('fetched', 1, 0) }";
    let server = "location / { content_by_lua_block {
        ngx.print(ngx.var.ssl_session_reused, ' ', ngx.shared.sessions:get 'fetched') } }";
    let (mut site, authority, port) = site(http, server);
    site.start();
    let client = authority.client(&[&TLS12]);
    assert_eq!(exchange(secure(&client, socket(port), "localhost")).expect("an answer"), ". nil");
    assert_eq!(exchange(secure(&client, socket(port), "localhost")).expect("an answer"), "r nil");
    site.quit();
}

#[test]
fn a_script_asks_clients_for_certificates() {
    let script = "
        ssl_certificate_by_lua_block {
            local ssl = require 'ngx.ssl'
            local file = io.open(ngx.config.prefix() .. 'conf/localhost.crt'):read '*a'
            assert(ssl.verify_client(ssl.parse_pem_cert(file), 1))
        }
        location / { return 200 $ssl_client_verify; }";
    let (mut site, authority, port) = site("", script);
    site.start();
    let client = authority.client(&[&TLS13]);
    assert_eq!(exchange(secure(&client, socket(port), "localhost")).expect("an answer"), "NONE");
    site.quit();
}

#[test]
fn a_failing_script_is_told_in_the_log() {
    let (mut site, authority, port) = site("", "ssl_certificate_by_lua_block { ngx.say('x') } return 200 ok;");
    site.start();
    let client = authority.client(&[&TLS13]);
    exchange(secure(&client, socket(port), "localhost")).expect_err("the script failed");
    site.wait_for_log("context: ssl_certificate_by_lua*, client: 127.0.0.1, server: 127.0.0.1:");
    site.wait_for_log("SSL_do_handshake() failed (SSL: cert cb error) while SSL handshaking");
    site.quit();
}
