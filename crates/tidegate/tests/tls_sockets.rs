//! TLS of cosockets with a server of ours: sessions as values, the secrets of connections, and what the debug log says.

mod support;

use std::os::unix::fs::PermissionsExt;

use support::authority::Authority;
use support::{Site, free_port};

/// A site with TLS on its second port, which tells whether a session was resumed, and `location` on the first; `PORT` in it is the other's.
fn site(location: &str) -> Site {
    let (mut site, authority, tls) = (Site::new("", ""), Authority::new(), free_port());
    for name in ["one.test", "two.test"] {
        authority.certify(&site, name);
    }
    let location = location.replace("PORT", &tls.to_string());
    site.write_conf(&format!(
        "error_log logs/error.log debug; pid logs/nginx.pid; events {{ }}\n\
         http {{ access_log off;\n\
         server {{ listen 127.0.0.1:{}; {location} }}\n\
         server {{ listen 127.0.0.1:{tls} ssl; ssl_certificate one.test.crt; ssl_certificate_key one.test.key; ssl_key_log server.keys;\n\
         location / {{ return 200 $ssl_session_reused; }} }} }}",
        site.port
    ));
    site.start();
    site
}

/// `try(session, name)`: one connection; what the server has said, and the session.
const TRY: &str = "
    local function try(session, name)
        local sock = ngx.socket.tcp()
        assert(sock:connect('127.0.0.1', PORT))
        local given, err = sock:sslhandshake(session, name)
        if not given then return err end
        assert(sock:send 'GET / HTTP/1.0\\r\\n\\r\\n')
        local answer = sock:receive '*a'
        local later, err = sock:getsslsession()
        sock:close()
        return answer:match '[^\\n]*$', given, later or err
    end";

fn body(site: &Site, path: &str) -> String {
    let answer = support::get(site.port, path).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    // What a script prints at once is one chunk.
    let text = if head.contains("chunked") { body.lines().nth(1).unwrap_or_default() } else { body };
    text.to_owned()
}

#[test]
fn a_session_is_resumed_by_whom_it_is_given_to() {
    let locations = ["TLSv1.2", "TLSv1.3"].map(|version| {
        format!(
            "location /{version} {{ lua_ssl_protocols {version}; content_by_lua_block {{ {TRY}
                local first, session, later = try(nil, 'one.test')
                local told = {{ first, (try(nil, 'one.test')), type(session), type(later) }}
                table.insert(told, (try(session, 'one.test')))
                table.insert(told, (try(later, 'one.test')))
                -- Whoever is asked by another name is another server.
                table.insert(told, (try(session, 'two.test')))
                table.insert(told, tostring(select(2, try(false, 'one.test'))))
                table.insert(told, (try('no session', 'one.test')))
                ngx.print(table.concat(told, ' '))
            }} }}"
        )
    });
    let mut site = site(&locations.concat());
    for version in ["TLSv1.2", "TLSv1.3"] {
        assert_eq!(body(&site, &format!("/{version}")), ". . cdata cdata r r . true .", "{version}");
    }
    site.wait_for_log("SSL reused session");
    site.quit();
}

#[test]
fn the_debug_log_names_sessions() {
    let location = format!(
        "location /names {{ lua_ssl_protocols TLSv1.2; content_by_lua_block {{ {TRY}
            do
                local _, session = try(nil, 'one.test')
                try(session, 'one.test')
            end
            collectgarbage()
            ngx.print 'done'
        }} }}"
    );
    let mut site = site(&location);
    assert_eq!(body(&site, "/names"), "done");
    site.wait_for_log(
        "SSL: TLSv1.2, cipher: \"ECDHE-ECDSA-AES256-GCM-SHA384 TLSv1.2 Kx=ECDH Au=ECDSA Enc=AESGCM(256) Mac=AEAD\"",
    );
    site.quit();
    let log = site.log();
    let lines: Vec<&str> = log.lines().filter_map(|line| Some(line.split_once("lua ssl ")?.1)).collect();
    let name = lines.iter().find_map(|line| line.strip_prefix("save session: ")).expect("a session was made");
    let of_sessions = lines.iter().copied().filter(|line| line.contains("session: "));
    let (ends, others): (Vec<&str>, Vec<&str>) = of_sessions.partition(|line| line.starts_with("free "));
    let of_it = |what: &str| format!("{what} session: {name}");
    assert_eq!(others, ["save", "set", "save"].map(of_it), "{log}");
    // What getsslsession gave ends too.
    assert_eq!(ends, vec![of_it("free"); 4], "{log}");
}

#[test]
fn what_stands_for_a_connection_is_no_pointer() {
    let mut site = site(
        "location / { content_by_lua_block {
            local ffi, ssl = require 'ffi', require 'ngx.ssl'
            ffi.cdef 'size_t strlen(const void *);'
            local sock = ngx.socket.tcp()
            assert(sock:connect('127.0.0.1', PORT))
            local told = { (select(2, sock:getsslpointer())), (select(2, sock:getsslsession())) }
            assert(sock:sslhandshake())
            local pointer = sock:getsslpointer()
            table.insert(told, type(pointer))
            table.insert(told, tostring(ssl.ssl_session_reused(pointer)))
            table.insert(told, tostring((pcall(ffi.C.strlen, pointer))))
            table.insert(told, (select(2, ssl.ssl_session_reused(5))))
            table.insert(told, (select(2, ssl.get_upstream_ssl_pointer())))
            ngx.print(table.concat(told, ', '))
        } }
        location /proxied { proxy_pass https://127.0.0.1:PORT/; header_filter_by_lua_block {
            local ssl = require 'ngx.ssl'
            ngx.header.reused = tostring(ssl.ssl_session_reused(ssl.get_upstream_ssl_pointer()))
        } }",
    );
    let expected = "no ssl connection, no session, cdata, false, false, bad ssl pointer, bad upstream ssl conn";
    assert_eq!(body(&site, "/"), expected);
    for reused in ["false", "true"] {
        let answer = support::get(site.port, "/proxied").expect("an answer");
        assert!(answer.to_ascii_lowercase().contains(&format!("reused: {reused}\r\n")), "{answer}");
    }
    site.quit();
}

#[test]
fn secrets_go_to_files_of_their_own() {
    let mut site = site(&format!(
        "location / {{ lua_ssl_key_log socket.keys; lua_ssl_protocols TLSv1.3; lua_ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;
            content_by_lua_block {{ {TRY} ngx.print((try(nil, 'one.test'))) }} }}
         location /proxied {{ proxy_pass https://127.0.0.1:PORT/; proxy_ssl_key_log proxy.keys; proxy_ssl_protocols TLSv1.2; }}"
    ));
    assert_eq!(body(&site, "/"), ".");
    site.wait_for_log("SSL: TLSv1.3, cipher: \"TLS_AES_128_GCM_SHA256 TLSv1.3 ");
    assert_eq!(body(&site, "/proxied"), ".");
    site.quit();
    let read = |name: &str| {
        let path = site.dir.join("conf").join(name);
        let mode = std::fs::metadata(&path).expect("it was made").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        std::fs::read_to_string(path).expect("text")
    };
    let (server, socket, proxy) = (read("server.keys"), read("socket.keys"), read("proxy.keys"));
    assert!(socket.lines().any(|line| line.starts_with("CLIENT_TRAFFIC_SECRET_0 ")), "{socket}");
    assert!(proxy.starts_with("CLIENT_RANDOM "), "{proxy}");
    // Both sides have the same secrets.
    for line in socket.lines().chain(proxy.lines()) {
        assert!(server.lines().any(|other| other == line), "{line}");
    }
}

#[test]
fn no_version_is_left() {
    let mut site = site(&format!(
        "location / {{ lua_ssl_protocols SSLv3; lua_socket_log_errors off;
            content_by_lua_block {{ {TRY} ngx.print((try(nil, 'one.test'))) }} }}"
    ));
    assert_eq!(body(&site, "/"), "handshake failed");
    site.wait_for_log("SSL_do_handshake() failed (SSL: error:0A0000BF:SSL routines::no protocols available)");
    site.quit();
}
