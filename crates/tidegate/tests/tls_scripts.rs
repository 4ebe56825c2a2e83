//! Scripts in handshakes: certificates, versions and sessions that they choose, and clients that leave meanwhile.

mod support;

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
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

/// A client that has a certificate of an authority, which goes into `conf/ca.crt`.
fn known_client(site: &Site, authority: &Authority, version: &'static SupportedProtocolVersion) -> Arc<ClientConfig> {
    authority.certify(site, "anna.test");
    std::fs::write(site.dir.join("conf/ca.crt"), &authority.pem).expect("written");
    let read = |suffix| std::fs::read(site.dir.join(format!("conf/anna.test.{suffix}"))).expect("written before");
    let certificate = CertificateDer::from_pem_slice(&read("crt")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(&read("key")).expect("a key");
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate.clone()).expect("a certificate");
    let provider = authority.client(&[version]).crypto_provider().clone();
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).expect("versions");
    Arc::new(builder.with_root_certificates(roots).with_client_auth_cert(vec![certificate], key).expect("a client"))
}

#[test]
fn who_was_not_asked_by_a_script_is_asked_when_the_script_wants_it() {
    let script = "
        ssl_certificate_by_lua_block {
            if not ngx.shared.rules:get 'asks' then return end
            local ssl = require 'ngx.ssl'
            local file = io.open(ngx.config.prefix() .. 'conf/ca.crt'):read '*a'
            assert(ssl.verify_client(ssl.parse_pem_cert(file), 1))
        }
        location = /rule { content_by_lua_block { ngx.shared.rules:set('asks', ngx.var.arg_asks == '1') } }
        location / { return 200 $ssl_client_verify$ssl_session_reused; }";
    for http in ["", "ssl_session_tickets off; ssl_session_cache shared:all:1m;"] {
        for version in [&TLS12, &TLS13] {
            let (mut site, authority, port) = site(&format!("lua_shared_dict rules 1m; {http}"), script);
            let client = known_client(&site, &authority, version);
            site.start();
            let ask = || exchange(secure(&client, socket(port), "localhost")).expect("an answer");
            let rule = |asks| support::get(site.port, &format!("/rule?asks={asks}")).expect("an answer");
            assert_eq!([ask(), ask()], ["NONE.", "NONEr"]);
            rule(1);
            assert_eq!([ask(), ask()], ["SUCCESS.", "SUCCESSr"]);
            // Nobody asks any more: what the session says of the client is no answer to that.
            rule(0);
            assert_eq!([ask(), ask()], ["NONE.", "NONEr"]);
            site.quit();
        }
    }
}

#[test]
fn a_failing_script_is_told_in_the_log() {
    let (mut site, authority, port) = site("", "ssl_certificate_by_lua_block { ngx.say('x') } return 200 ok;");
    site.start();
    let client = authority.client(&[&TLS13]);
    exchange(secure(&client, socket(port), "localhost")).expect_err("the script failed");
    site.wait_for_log("context: ssl_certificate_by_lua*, client: 127.0.0.1, server: 127.0.0.1:");
    site.wait_for_log(
        "SSL_do_handshake() failed (SSL: error:0A000179:SSL routines::cert cb error) while SSL handshaking",
    );
    site.quit();
}

/// As applications call lua-nginx-module's own C functions.
const BY_C: &str = r#"
    ssl_certificate_by_lua_block {
        local ffi = require 'ffi'
        if not pcall(ffi.typeof, 'struct declared') then
            ffi.cdef [[
                struct declared { int x; };
                int ngx_http_lua_ffi_ssl_clear_certs(void *r, char **err);
                void *ngx_http_lua_ffi_parse_pem_cert(const unsigned char *pem, size_t pem_len, char **err);
                void *ngx_http_lua_ffi_parse_pem_priv_key(const unsigned char *pem, size_t pem_len, char **err);
                int ngx_http_lua_ffi_cert_pem_to_der(const unsigned char *pem, size_t pem_len, unsigned char *der, char **err);
                int ngx_http_lua_ffi_set_cert(void *r, void *cdata, char **err);
                int ngx_http_lua_ffi_set_priv_key(void *r, void *cdata, char **err);
                void ngx_http_lua_ffi_free_cert(void *cdata);
                int ngx_http_lua_ffi_ssl_client_random(void *r, unsigned char *out, size_t *outlen, char **err);
                int ngx_http_lua_ffi_req_shared_ssl_ciphers(void *r, uint16_t *ciphers, uint16_t *nciphers, int filter, char **err);
            ]]
        end
        local C, err, told = ffi.C, ffi.new('char *[1]'), {}
        local function read(name) return io.open(ngx.config.prefix() .. 'conf/one.test' .. name):read '*a' end
        local r = require 'resty.core.base'.get_request()
        assert(C.ngx_http_lua_ffi_ssl_clear_certs(r, err) == 0)
        local pem, key = read '.crt', read '.key'
        local chain = C.ngx_http_lua_ffi_parse_pem_cert(pem, #pem, err)
        assert(C.ngx_http_lua_ffi_set_cert(r, chain, err) == 0)
        assert(C.ngx_http_lua_ffi_set_priv_key(r, C.ngx_http_lua_ffi_parse_pem_priv_key(key, #key, err), err) == 0)
        local der = ffi.new('unsigned char[?]', #pem)
        local size = C.ngx_http_lua_ffi_cert_pem_to_der(pem, #pem, der, err)
        table.insert(told, tostring(ffi.string(der, size) == require 'ngx.ssl'.cert_pem_to_der(pem)))
        -- What was freed, what is of another kind, and what is nothing.
        C.ngx_http_lua_ffi_free_cert(chain)
        for _, bad in ipairs { chain, ffi.cast('void *', 12345), der } do
            table.insert(told, C.ngx_http_lua_ffi_set_cert(r, bad, err) .. ' ' .. ffi.string(err[0]))
        end
        local room, out = ffi.new('size_t[1]', 32), ffi.new('unsigned char[32]')
        assert(C.ngx_http_lua_ffi_ssl_client_random(r, out, room, err) == 0)
        table.insert(told, tostring(ffi.string(out, room[0]) == require 'ngx.ssl'.get_client_random()))
        local count, ciphers = ffi.new('uint16_t[1]', 1), ffi.new('uint16_t[64]')
        table.insert(told, C.ngx_http_lua_ffi_req_shared_ssl_ciphers(r, ciphers, count, 0, err) .. ' ' .. ffi.string(err[0]))
        count[0] = 64
        assert(C.ngx_http_lua_ffi_req_shared_ssl_ciphers(r, ciphers, count, 0, err) == 0)
        table.insert(told, tostring(count[0] > 1))
        ngx.ctx.told = table.concat(told, ', ')
    }
    location / { content_by_lua_block { ngx.print(ngx.ctx.told) } }"#;

#[test]
fn functions_of_c_choose_the_certificate() {
    let (mut site, authority, port) = site("", BY_C);
    site.start();
    let client = authority.client(&[&TLS13]);
    let refused = "-1 invalid certificate chain";
    let expected = format!("true, {refused}, {refused}, {refused}, true, -1 buffer too small, true");
    assert_eq!(exchange(secure(&client, socket(port), "one.test")).expect("an answer"), expected);
    site.quit();
}
