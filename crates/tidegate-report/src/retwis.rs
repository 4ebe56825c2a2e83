//! `examples/retwis` in a report: its files, and the same people with the same posts for the embedded database and for Redis.

use std::fmt::Write as _;

/// People who post in turns.
const PEOPLE: usize = 100;
/// Posts; a page shows twenty.
const POSTS: usize = 1000;
/// When the first was posted, in Unix seconds; one a minute.
const FIRST_POSTED: usize = 1_700_000_000;

/// What servers with Lua need of it, by paths below the stack's directory.
pub(crate) const FILES: [(&str, &str); 9] = [
    ("lua/retwis/app.lua", include_str!("../../../examples/retwis/lua/retwis/app.lua")),
    ("lua/retwis/password.lua", include_str!("../../../examples/retwis/lua/retwis/password.lua")),
    ("lua/retwis/store_redis.lua", include_str!("../../../examples/retwis/lua/retwis/store_redis.lua")),
    ("lua/retwis/store_sql.lua", include_str!("../../../examples/retwis/lua/retwis/store_sql.lua")),
    ("lua/retwis/template.lua", include_str!("../../../examples/retwis/lua/retwis/template.lua")),
    ("templates/layout.html", include_str!("../../../examples/retwis/templates/layout.html")),
    ("templates/posts.html", include_str!("../../../examples/retwis/templates/posts.html")),
    ("templates/problem.html", include_str!("../../../examples/retwis/templates/problem.html")),
    ("templates/timeline.html", include_str!("../../../examples/retwis/templates/timeline.html")),
];

/// The text of a post.
fn text(post: usize) -> String {
    format!("Post {post} is about the weather & the <sea>, and @person{} should know of it.", post * 7 % PEOPLE + 1)
}

/// Who has posted it.
fn author(post: usize) -> usize {
    post % PEOPLE + 1
}

/// Tables with rows, for the embedded database.
pub(crate) fn sql() -> String {
    let mut sql = include_str!("../../../examples/retwis/retwis.sql").to_owned();
    for person in 1..=PEOPLE {
        let _ = writeln!(sql, "insert into users values ({person}, 'person{person}', '', {FIRST_POSTED});");
    }
    for post in 1..=POSTS {
        let (author, text, posted) = (author(post), text(post), FIRST_POSTED + 60 * post);
        let _ = writeln!(sql, "insert into posts values ({post}, {author}, '{text}', {posted});");
    }
    sql
}

/// The same as commands of Redis, one in each line, as `redis-cli` reads them.
pub(crate) fn commands() -> String {
    let mut lines = String::new();
    for person in 1..=PEOPLE {
        let _ = writeln!(lines, "hset retwis:user:{person} name person{person} password \"\"");
        let _ = writeln!(lines, "hset retwis:users person{person} {person}");
        let _ = writeln!(lines, "lpush retwis:newest person{person}");
    }
    for post in 1..=POSTS {
        let (author, text, posted) = (author(post), text(post), FIRST_POSTED + 60 * post);
        let _ = writeln!(lines, "hset retwis:post:{post} user {author} text \"{text}\" posted {posted}");
        let _ = writeln!(lines, "zadd retwis:posts {post} {post}");
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_stores_have_the_same() {
        let (sql, commands) = (sql(), commands());
        for post in [1, POSTS] {
            assert_eq!(sql.matches(&text(post)).count(), 1, "{post}");
            assert_eq!(commands.matches(&text(post)).count(), 1, "{post}");
        }
        assert_eq!(sql.matches("insert into posts").count(), commands.matches("zadd retwis:posts ").count());
        assert_eq!(sql.matches("insert into users").count(), commands.matches("lpush ").count());
        assert!(!sql.contains('\\') && text(3).len() <= 280);
    }
}
