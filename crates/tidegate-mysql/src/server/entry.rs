//! How a connection gets through its login, or another user's on the same connection: who is asked for what, and let in.

use std::ops::Range;

use super::{
    Backend, For, Next, Phase, Server,
    login::{KEY_WANTED, Step},
    put,
};
use crate::{answer, handshake::capability, wire::Malformed};

/// What a client is told behind [`answer::MORE_DATA`] whose proof is good.
const PROVED: u8 = 3;
/// The same, where the proof cannot be judged: its password is wanted.
const PASSWORD_WANTED: u8 = 4;

impl<B: Backend> Server<B> {
    /// Goes on with a login.
    pub(super) async fn log_in(&mut self, taken: Range<usize>, sequence: u8) -> Result<Next, Malformed> {
        let Some(input) = &self.input else { return Ok(Next::Read) };
        let packet = input.payload(taken);
        let next = match self.phase {
            Phase::Password(_) => {
                let packet = packet.to_vec();
                self.take_password(&packet, sequence).await
            }
            Phase::Response => {
                let step = self.login.respond(packet, self.has_tls)?;
                self.step(step, sequence)
            }
            Phase::Proof(_) | Phase::Commands => {
                self.login.prove(packet);
                self.step(Step::Check, sequence)
            }
        };
        if self.phase == Phase::Commands {
            let bytes_max = self.backend.packet_bytes_max();
            self.buffer().set_payload_max(bytes_max);
        }
        Ok(next)
    }

    /// What the client proves itself for, or would.
    fn purpose(&self) -> For {
        match self.phase {
            Phase::Response => For::Login,
            Phase::Proof(purpose) | Phase::Password(purpose) => purpose,
            Phase::Commands => For::Change,
        }
    }

    /// Says something of a login, to which the client answers.
    fn ask(&mut self, parts: [&[u8]; 2], mut sequence: u8, phase: Phase) -> Next {
        put(&self.line, &mut sequence, |out| parts.iter().for_each(|part| out.extend_from_slice(part)));
        self.phase = phase;
        self.buffer().sequence = sequence;
        Next::Again
    }

    pub(super) fn step(&mut self, step: Step, sequence: u8) -> Next {
        match step {
            Step::Tls => return Next::Tls,
            Step::Check => {}
        }
        let secret = self.backend.secret(&self.login.user);
        // Whoever was asked has answered in the way that it was asked for.
        let was_asked = matches!(self.phase, Phase::Proof(_));
        let mut question = Vec::new();
        if !was_asked && self.login.asks_again(secret.as_ref(), &mut question) {
            return self.ask([&question, &[]], sequence, Phase::Proof(self.purpose()));
        }
        if self.login.is_right(secret.as_ref()) {
            return self.admit(sequence);
        }
        if self.login.needs_password(secret.as_ref()) && self.backend.may_try(&self.login) {
            self.login.knows_key = false;
            return self.ask([&[answer::MORE_DATA, PASSWORD_WANTED], &[]], sequence, Phase::Password(self.purpose()));
        }
        self.deny(sequence)
    }

    /// Takes what a client sends that was asked for its password. It is told the key once.
    async fn take_password(&mut self, packet: &[u8], sequence: u8) -> Next {
        if packet == KEY_WANTED && !self.login.knows_key {
            let Some(key) = self.backend.public_key().await else { return self.deny(sequence) };
            self.login.knows_key = true;
            return self.ask([&[answer::MORE_DATA], key.as_bytes()], sequence, self.phase);
        }
        let sent = self.login.sent(packet, self.has_tls || self.is_local);
        if self.backend.is_password(sent).await { self.admit(sequence) } else { self.deny(sequence) }
    }

    fn deny(&mut self, mut sequence: u8) -> Next {
        let error = self.backend.refuse(&self.login);
        put(&self.line, &mut sequence, |out| answer::put_error(out, &error));
        Next::Close
    }

    fn admit(&mut self, mut sequence: u8) -> Next {
        if let Err(error) = self.backend.admit(&self.login) {
            put(&self.line, &mut sequence, |out| answer::put_error(out, &error));
            return Next::Close;
        }
        let purpose = self.purpose();
        if purpose == For::Login {
            self.backend.set_multi_statements(self.has(capability::MULTI_STATEMENTS));
        }
        let sent_password = matches!(self.phase, Phase::Password(_));
        self.phase = Phase::Commands;
        self.statements.clear();
        if self.login.wants_fast_success() && !sent_password {
            put(&self.line, &mut sequence, |out| out.extend_from_slice(&[answer::MORE_DATA, PROVED]));
        }
        self.put_ok(sequence);
        if purpose == For::Login
            && let Some(algorithm) = self.login.compression()
        {
            self.begin_frames(algorithm);
        }
        Next::Again
    }
}
