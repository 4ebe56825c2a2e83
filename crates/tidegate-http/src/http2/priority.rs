//! How urgent a response is, as its client says (RFC 9218).

/// The priority of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    /// The client can use a part of it: it shares the connection with others that are as urgent. Otherwise it is sent
    /// before or after them.
    pub incremental: bool,
}

impl Priority {
    /// How many urgencies there are.
    pub const URGENCIES: usize = 8;

    /// That of a client that says nothing about it: responses share the connection, as without this standard.
    pub const UNSAID: Priority = Priority { urgency: 3, incremental: true };

    /// Reads the value of a `priority` field. What makes no sense counts as absent (section 4).
    pub fn parse(field: &[u8]) -> Priority {
        let mut priority = Priority { urgency: 3, incremental: false };
        let mut quoted = false;
        let members = field.split(|&byte| {
            quoted ^= byte == b'"';
            byte == b',' && !quoted
        });
        for member in members {
            let end = member.iter().position(|&byte| byte == b';').unwrap_or(member.len());
            match member[..end].trim_ascii() {
                b"i" | b"i=?1" => priority.incremental = true,
                b"i=?0" => priority.incremental = false,
                [b'u', b'=', urgency @ b'0'..=b'7'] => priority.urgency = urgency - b'0',
                _ => {}
            }
        }
        priority
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(field: &str, urgency: u8, incremental: bool) {
        assert_eq!(Priority::parse(field.as_bytes()), Priority { urgency, incremental });
    }

    #[test]
    fn fields() {
        check("", 3, false);
        check("i", 3, true);
        check("u=0", 0, false);
        check("u=7,i", 7, true);
        check(" u=5 ,\ti=?1", 5, true);
        check("i, i=?0", 3, false);
        check("u=1, u=2", 2, false);
        check("u=1;x=1, i;y", 1, true);
    }

    #[test]
    fn what_makes_no_sense_counts_as_absent() {
        for field in
            ["u=8", "u=-1", "u=1.5", "u", "u=a", "I", "i=1", "u=", "=", ",", ",,", "x=\"a,u=1,i\"", "ui", "u=11"]
        {
            check(field, 3, false);
        }
        check("u=9, i", 3, true);
    }
}
