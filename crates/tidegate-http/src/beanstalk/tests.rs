use super::*;

const JOB_BYTES_MAX: usize = 10;

#[track_caller]
fn check(input: &str, expected: Command<'_>) {
    let parsed = parse(input.as_bytes(), JOB_BYTES_MAX);
    assert_eq!(parsed, Parsed::Command { command: expected, bytes: input.len(), skip: 0 }, "{input:?}");
    for cut in 0..input.len() {
        let part = parse(&input.as_bytes()[..cut], JOB_BYTES_MAX);
        assert!(matches!(part, Parsed::Partial { .. }), "{:?}: {part:?}", &input[..cut]);
    }
    // What follows does not count.
    assert_eq!(parse(format!("{input}put 1 ").as_bytes(), JOB_BYTES_MAX), parsed);
}

#[test]
fn commands_are_understood() {
    let body = b"a\r\nb";
    check("put 1 2 3 4\r\na\r\nb\r\n", Command::Put { priority: 1, delay_s: 2, ttr_s: 3, body });
    check("put 4294967295  0 0 0\r\n\r\n", Command::Put { priority: u32::MAX, delay_s: 0, ttr_s: 0, body: b"" });
    check("put 1 2 3 4\r\nabcdef", Command::PutWithoutEnd);
    check("use a\r\n", Command::Use("a"));
    check("reserve\r\n", Command::Reserve { timeout_s: None });
    check("reserve-with-timeout 0\r\n", Command::Reserve { timeout_s: Some(0) });
    check("reserve-with-timeout 7 or so\r\n", Command::Reserve { timeout_s: Some(7) });
    check("reserve-job 18446744073709551615\r\n", Command::ReserveJob(u64::MAX));
    check("delete 1\r\n", Command::Delete(1));
    check("release 1 2 3\r\n", Command::Release { id: 1, priority: 2, delay_s: 3 });
    check("bury 1 2\r\n", Command::Bury { id: 1, priority: 2 });
    check("touch 1\r\n", Command::Touch(1));
    check("watch a-+/;.$_()b\r\n", Command::Watch("a-+/;.$_()b"));
    check("ignore a\r\n", Command::Ignore("a"));
    check("peek 1\r\n", Command::Peek(1));
    check("peek-ready\r\n", Command::PeekReady);
    check("peek-delayed\r\n", Command::PeekDelayed);
    check("peek-buried\r\n", Command::PeekBuried);
    check("kick 7x\r\n", Command::Kick(7));
    check("kick -1\r\n", Command::Kick(u32::MAX));
    check("kick-job 1\r\n", Command::KickJob(1));
    check("stats-job 1\r\n", Command::StatsJob(1));
    check("stats-tube a\r\n", Command::StatsTube("a"));
    check("stats\r\n", Command::Stats);
    check("list-tubes\r\n", Command::ListTubes);
    check("list-tube-used\r\n", Command::ListTubeUsed);
    check("list-tubes-watched\r\n", Command::ListTubesWatched);
    check("quit for today\r\n", Command::Quit);
    check("pause-tube a 9\r\n", Command::PauseTube { tube: "a", delay_s: 9 });
}

#[test]
fn what_cannot_be_understood_is_refused() {
    for line in [
        "put 1 2 3",
        "put 1 2 3 x",
        "put 4294967296 0 0 0",
        "put -1 0 0 0",
        "put 0x 0 0 0",
        "put 1 2 3 4 ",
        "use ",
        "use -a",
        "use a b",
        "use a:b",
        "reservers",
        "reserve-with-timeout ",
        "reserve-with-timeout -1",
        "reserve-with-timeout 2147483648",
        "delete x",
        "delete 1 2",
        "delete 18446744073709551616",
        "release 1 2",
        "release 1 2 3 4",
        "bury 1",
        "bury 1 2 3",
        "peek x",
        "peek-ready ",
        "kick x",
        "kick - 1",
        "kick ",
        "kick 18446744073709551616",
        "stats ",
        "stats-tubes",
        "list-tubes a",
        "pause-tube",
        "pause-tube a",
        "pause-tube -a 1",
        "pause-tube a b",
        "use \u{e4}",
        "stats\0",
    ] {
        check(&format!("{line}\r\n"), BAD_FORMAT);
    }
    let name = "a".repeat(TUBE_BYTES_MAX);
    check(&format!("watch {name}\r\n"), Command::Watch(&name));
    check(&format!("watch {name}a\r\n"), BAD_FORMAT);
    for line in ["", "put", "use", "PUT 1 2 3 4", " reserve", "delete", "kick", "peek", "\u{e4}", "GET / HTTP/1.1"] {
        check(&format!("{line}\r\n"), UNKNOWN);
    }
}

#[test]
fn lines_and_jobs_have_limits() {
    let line = |bytes: usize| format!("use {}\r\n", "a".repeat(bytes - 6));
    assert!(matches!(parse(line(LINE_BYTES_MAX).as_bytes(), 10), Parsed::Command { command: BAD_FORMAT, .. }));
    let long = line(LINE_BYTES_MAX + 1);
    assert_eq!(parse(long.as_bytes(), 10), Parsed::TooLong);
    assert_eq!(end_of_line(long.as_bytes()), Some(long.len()));
    assert_eq!(parse("\r".repeat(LINE_BYTES_MAX).as_bytes(), 10), Parsed::TooLong);
    let large = parse(b"put 1 2 3 11\r\nabc", JOB_BYTES_MAX);
    assert_eq!(large, Parsed::Command { command: Command::PutTooBig, bytes: 14, skip: 13 });
    assert_eq!(parse(b"put 1 2 3 10\r\nabc", JOB_BYTES_MAX), Parsed::Partial { bytes: Some(26) });
}

#[test]
fn answers_are_written() {
    let mut out = Vec::new();
    write_job("RESERVED", 7, b"ab", &mut out);
    write_text("---\n- a\n", &mut out);
    assert_eq!(out, b"RESERVED 7 2\r\nab\r\nOK 8\r\n---\n- a\n\r\n");
}
