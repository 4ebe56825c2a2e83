//! A memcached and a Redis that break off after each byte of their answers, and ones that send each byte wrong: a client gets
//! an error, a response that is visibly cut, or the right one, and the next request is none the worse for it.

mod support;

use support::Site;
use support::answers::{Answerer, Seen, ask};

/// A request and its whole answer.
struct Exchange {
    path: &'static str,
    answer: &'static [u8],
    /// Bytes of the answer behind which a response begins.
    head_bytes: usize,
    status: u16,
    content: &'static [u8],
}

const EXCHANGES: [Exchange; 5] = [
    Exchange {
        path: "/memcached",
        answer: b"VALUE key 0 5\r\nhello\r\nEND\r\n",
        head_bytes: 15,
        status: 200,
        content: b"hello",
    },
    Exchange {
        path: "/get",
        answer: b"VALUE key 0 5\r\nhello\r\nEND\r\n",
        head_bytes: 15,
        status: 200,
        content: b"hello",
    },
    Exchange { path: "/set", answer: b"STORED\r\n", head_bytes: 8, status: 201, content: b"STORED\r\n" },
    Exchange { path: "/redis", answer: b"+OK\r\n$5\r\nhello\r\n", head_bytes: 9, status: 200, content: b"hello" },
    Exchange {
        path: "/redis2",
        answer: b"*2\r\n$5\r\nhello\r\n:1\r\n",
        head_bytes: 1,
        status: 200,
        content: b"*2\r\n$5\r\nhello\r\n:1\r\n",
    },
];

fn site(server: u16) -> Site {
    let mut site = Site::new("worker_processes 1;", "");
    site.write_conf(&format!(
        "worker_processes 1; error_log logs/error.log notice; pid logs/nginx.pid; events {{ }}\n\
         http {{\n\
             upstream u {{ server 127.0.0.1:{server} max_fails=0; keepalive 4; }}\n\
             server {{\n\
                 listen 127.0.0.1:{};\n\
                 location = / {{ return 200 ok; }}\n\
                 location /memcached {{ set $memcached_key key; memcached_pass u; }}\n\
                 location /get {{ set $memc_key key; memc_pass u; }}\n\
                 location /set {{ set $memc_cmd set; set $memc_key key; set $memc_value key; memc_pass u; }}\n\
                 location /redis {{ set $redis_key key; redis_pass u; }}\n\
                 location /redis2 {{ redis2_query get key; redis2_pass u; }}\n\
             }}\n\
         }}\n",
        site.port
    ));
    site.start();
    site
}

#[test]
fn an_answer_that_breaks_off_is_never_taken_for_another_one() {
    let server = Answerer::start(b"key\r\n");
    let mut site = site(server.port);
    for Exchange { path, answer, head_bytes, status, content } in EXCHANGES {
        for cut in 0..=answer.len() {
            server.answers.send(answer[..cut].to_vec()).expect("it runs");
            let seen = ask(site.port, path);
            match &seen {
                Seen::Error => assert!(cut <= head_bytes, "{path} cut at {cut}"),
                Seen::Cut(part) => {
                    assert!(content.starts_with(part) && cut < answer.len(), "{path} cut at {cut}: {seen:?}")
                }
                Seen::Whole(..) => {
                    assert_eq!(seen, Seen::Whole(status, content.to_vec()), "{path} cut at {cut}");
                    let content_end = answer.windows(content.len()).position(|window| window == content);
                    assert!(cut >= content_end.expect("a part of it") + content.len(), "{path} cut at {cut}");
                }
            }
            if cut == answer.len() {
                assert_eq!(seen, Seen::Whole(status, content.to_vec()), "{path}");
            }
        }
    }
    server.finish();
    site.quit();
}

#[test]
fn a_wrong_byte_in_an_answer_harms_no_other_one() {
    let server = Answerer::start(b"key\r\n");
    let mut site = site(server.port);
    for Exchange { path, answer, status, content, .. } in EXCHANGES {
        for at in 0..answer.len() {
            let mut wrong = answer.to_vec();
            wrong[at] ^= 0xff;
            server.answers.send(wrong).expect("it runs");
            // Whatever comes, it ends.
            ask(site.port, path);
        }
        server.answers.send(answer.to_vec()).expect("it runs");
        assert_eq!(ask(site.port, path), Seen::Whole(status, content.to_vec()), "{path} afterwards");
    }
    server.finish();
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("panic"), "{log}");
    site.quit();
}
