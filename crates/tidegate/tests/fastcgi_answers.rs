//! A FastCGI application that breaks off after each byte of its answer, and one that sends each byte wrong: a client gets an
//! error, a response that is visibly cut, or the right one, and the next request is none the worse for it.

mod support;

use support::Site;
use support::answers::{Answerer, Seen, ask};

const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const END_REQUEST: u8 = 3;

/// The empty record that ends a request's body.
const REQUEST_END: [u8; 8] = [1, 5, 0, 1, 0, 0, 0, 0];

fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
    let [high, low] = u16::try_from(content.len()).expect("short").to_be_bytes();
    let mut record = vec![1, kind, 0, 1, high, low, padding, 0];
    record.extend_from_slice(content);
    record.resize(record.len() + usize::from(padding), 0);
    record
}

const CONTENT: &[u8] = b"all of the answer";

/// An answer in several records, and the places where a record ends.
fn answer(fields: &str) -> (Vec<u8>, Vec<usize>) {
    let records = [
        record(STDERR, b"a word", 2),
        record(STDOUT, format!("X-Whole: yes\r\n{fields}").as_bytes(), 0),
        record(STDOUT, b"\r\nall of ", 7),
        record(STDERR, b"another", 1),
        record(STDOUT, b"the answer", 6),
        record(STDOUT, b"", 0),
        record(END_REQUEST, &[0; 8], 0),
    ];
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    for record in records {
        bytes.extend_from_slice(&record);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

fn site(application: u16) -> Site {
    let mut site = Site::new("worker_processes 1;", "");
    site.write_conf(&format!(
        "worker_processes 1; error_log logs/error.log notice; pid logs/nginx.pid; events {{ }}\n\
         http {{\n\
             upstream u {{ server 127.0.0.1:{application} max_fails=0; keepalive 4; }}\n\
             server {{\n\
                 listen 127.0.0.1:{};\n\
                 location = / {{ return 200 ok; }}\n\
                 location /close {{ fastcgi_pass u; }}\n\
                 location /keep {{ fastcgi_pass u; fastcgi_keep_conn on; }}\n\
                 location /direct {{ fastcgi_pass u; fastcgi_buffering off; }}\n\
             }}\n\
         }}\n",
        site.port
    ));
    site.start();
    site
}

const PATHS: [&str; 3] = ["/close", "/keep", "/direct"];

#[test]
fn an_answer_that_breaks_off_is_never_taken_for_another_one() {
    let application = Answerer::start(&REQUEST_END);
    let mut site = site(application.port);
    for fields in ["", "Content-Length: 17\r\n"] {
        let (whole, ends) = answer(fields);
        for path in PATHS {
            for cut in 0..=whole.len() {
                application.answers.send(whole[..cut].to_vec()).expect("it runs");
                let seen = ask(site.port, path);
                // Applications need not say that an answer without a length has ended, unless they keep the connection.
                let may_end = ends.contains(&cut) && fields.is_empty() && path != "/keep";
                match &seen {
                    Seen::Error => assert!(cut < ends[2], "{path} cut at {cut}"),
                    Seen::Cut(content) => assert!(CONTENT.starts_with(content), "{path} cut at {cut}: {seen:?}"),
                    Seen::Whole(200, content) if content == CONTENT => {
                        assert!(cut >= ends[4] - 6, "{path} cut at {cut}")
                    }
                    Seen::Whole(200, content) => {
                        assert!(CONTENT.starts_with(content) && may_end, "{path} cut at {cut}: {seen:?}")
                    }
                    Seen::Whole(..) => panic!("{path} cut at {cut}: {seen:?}"),
                }
                if cut == whole.len() {
                    assert_eq!(seen, Seen::Whole(200, CONTENT.to_vec()), "{path}");
                }
            }
        }
    }
    application.finish();
    site.quit();
}

#[test]
fn a_wrong_byte_in_an_answer_harms_no_other_one() {
    let application = Answerer::start(&REQUEST_END);
    let mut site = site(application.port);
    let (whole, _) = answer("Content-Length: 17\r\n");
    for path in PATHS {
        for at in 0..whole.len() {
            let mut wrong = whole.clone();
            wrong[at] ^= 0xff;
            application.answers.send(wrong).expect("it runs");
            // Whatever comes, it ends.
            ask(site.port, path);
        }
        application.answers.send(whole.clone()).expect("it runs");
        assert_eq!(ask(site.port, path), Seen::Whole(200, CONTENT.to_vec()), "{path} afterwards");
    }
    application.finish();
    let log = site.log();
    assert!(!log.contains("[alert]") && !log.contains("panic"), "{log}");
    site.quit();
}
