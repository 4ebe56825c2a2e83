//! The request for an account.
//!
//! `instant_acme` makes an account's key itself, and tells it when the account is there. Whoever ends between the two has an account
//! that nobody can use, and authorities give few accounts. So this one request is made here, with a key that has been kept before.
//!
//! Source: RFC 8555, sections 6.2, 6.5, 7.3 and 7.3.4; RFC 7515, section 7.2.2; RFC 7518, sections 3.2, 3.4 and 6.2.1.

use std::convert::Infallible;

use aws_lc_rs::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use hyper::{
    Method, Request, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, USER_AGENT},
};
use instant_acme::{BodyWrapper, Error, HttpClient, Problem};
use serde_json::{Value, json};
use tidegate_tls::Shared;

use crate::issuer::Settings;

/// How often the request is sent while the authority does not take its nonce.
const TRIES_MAX: u32 = 3;

const AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

/// An account at an authority.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    /// Its address.
    pub(crate) id: String,
    /// The key has had it before.
    pub(crate) is_known: bool,
}

/// Asks for the account of a key (P-256, in PKCS #8), which is made if there is none.
///
/// # Errors
/// The authority's refusal, or what is wrong with the way to it or with the key.
pub(crate) async fn register(http: &dyn HttpClient, key: &[u8], settings: &Settings) -> Result<Registered, Error> {
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key).map_err(|_| Error::KeyRejected)?;
    let directory: Value = serde_json::from_slice(&exchange(http, get(&settings.uri)?).await?.content)?;
    let url = |name: &str| directory.get(name).and_then(Value::as_str);
    let new_account = url("newAccount").ok_or(Error::Str("newAccount in the directory"))?;
    let new_nonce = url("newNonce").ok_or(Error::Str("newNonce in the directory"))?;
    let payload = payload(&key, settings, new_account).to_string();
    let mut tries = 1;
    loop {
        let mut head = get(new_nonce)?;
        *head.method_mut() = Method::HEAD;
        let answer = exchange(http, head).await?;
        let nonce = answer.field("Replay-Nonce").ok_or(Error::Str("a nonce"))?;
        let protected = json!({ "alg": "ES256", "jwk": public(&key), "nonce": nonce, "url": new_account });
        let signed = signed(&protected, &payload, |input| {
            key.sign(&SystemRandom::new(), input)
                .map(|signature| signature.as_ref().to_vec())
                .map_err(|_| Error::Crypto)
        })?;
        let request =
            Request::post(new_account).header(USER_AGENT, AGENT).header(CONTENT_TYPE, "application/jose+json");
        match exchange(http, request.body(BodyWrapper::from(signed.to_string().into_bytes()))?).await {
            Err(Error::Api(problem)) if is_of_nonce(&problem) && tries < TRIES_MAX => tries += 1,
            answer => {
                let answer = answer?;
                let id = answer.field("Location").ok_or(Error::Str("the address of the account"))?.to_owned();
                return Ok(Registered { id, is_known: answer.status == StatusCode::OK });
            }
        }
    }
}

/// What the account is to be.
fn payload(key: &EcdsaKeyPair, settings: &Settings, new_account: &str) -> Value {
    let mut payload = json!({ "termsOfServiceAgreed": settings.accepts_terms });
    if !settings.contacts.is_empty() {
        payload["contact"] = json!(settings.contacts);
    }
    if let Some((id, Shared(secret))) = &settings.external_account {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let protected = json!({ "alg": "HS256", "kid": id, "url": new_account });
        let sign = |input: &[u8]| Ok::<_, Infallible>(hmac::sign(&secret, input).as_ref().to_vec());
        let Ok(binding) = signed(&protected, &public(key).to_string(), sign);
        payload["externalAccountBinding"] = binding;
    }
    payload
}

/// A text with its signature, in the form of RFC 7515, section 7.2.2.
fn signed<E>(protected: &Value, payload: &str, sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, E>) -> Result<Value, E> {
    let [protected, payload] = [protected.to_string().as_str(), payload].map(|text| URL_SAFE_NO_PAD.encode(text));
    let signature = sign(format!("{protected}.{payload}").as_bytes())?;
    Ok(json!({ "protected": protected, "payload": payload, "signature": URL_SAFE_NO_PAD.encode(signature) }))
}

/// The public half of a key (RFC 7518, section 6.2.1): a point without compression is 4, x, y.
fn public(key: &EcdsaKeyPair) -> Value {
    let point: &[u8] = key.public_key().as_ref();
    let (x, y) = point.get(1..).unwrap_or_default().split_at(point.len() / 2);
    json!({ "crv": "P-256", "kty": "EC", "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y) })
}

fn get(url: &str) -> Result<Request<BodyWrapper<Bytes>>, Error> {
    Ok(Request::get(url).header(USER_AGENT, AGENT).body(BodyWrapper::default())?)
}

fn is_of_nonce(problem: &Problem) -> bool {
    problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:badNonce")
}

/// An answer that is no refusal.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    content: Bytes,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

async fn exchange(http: &dyn HttpClient, request: Request<BodyWrapper<Bytes>>) -> Result<Answer, Error> {
    let mut response = http.request(request).await?;
    let content = response.body.into_bytes().await.map_err(Error::Other)?;
    let (status, headers) = (response.parts.status, response.parts.headers);
    if !status.is_success() {
        return Err(serde_json::from_slice::<Problem>(&content)?.into());
    }
    Ok(Answer { status, headers, content })
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        future::Future,
        pin::Pin,
        sync::{Arc, Mutex},
    };

    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
    use http_body_util::{BodyExt as _, Full};
    use hyper::Response;
    use instant_acme::{BytesResponse, Key};

    use super::*;

    /// Status, fields and content of answers that are given in turn, and what was asked.
    #[derive(Clone, Default)]
    struct Authority(Arc<Mutex<(VecDeque<Response<Full<Bytes>>>, Vec<(String, Value)>)>>);

    impl Authority {
        fn answers(&self, status: u16, fields: &[(&str, &str)], content: &str) {
            let mut response = Response::builder().status(status);
            for (name, value) in fields {
                response = response.header(*name, *value);
            }
            let content = Full::new(Bytes::copy_from_slice(content.as_bytes()));
            self.0.lock().expect("not poisoned").0.push_back(response.body(content).expect("a response"));
        }
    }

    impl HttpClient for Authority {
        fn request(
            &self,
            request: Request<BodyWrapper<Bytes>>,
        ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
            let authority = self.clone();
            Box::pin(async move {
                let what = format!("{} {}", request.method(), request.uri());
                let content = request.into_body().collect().await.expect("a body").to_bytes();
                let mut shared = authority.0.lock().expect("not poisoned");
                shared.1.push((what, serde_json::from_slice(&content).unwrap_or_default()));
                Ok(shared.0.pop_front().expect("an answer").into())
            })
        }
    }

    fn settings(external: bool) -> Settings {
        Settings {
            uri: "https://ca.test/dir".to_owned(),
            contacts: vec!["mailto:me@one.test".to_owned()],
            external_account: external.then(|| ("kid-1".to_owned(), Shared(Arc::new(b"secret".to_vec())))),
            ..Settings::of_nobody("one")
        }
    }

    fn ask(authority: &Authority, key: &[u8], external: bool) -> Result<Registered, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(register(authority, key, &settings(external)))
    }

    const DIRECTORY: &str = r#"{"newNonce":"https://ca.test/nonce","newAccount":"https://ca.test/account"}"#;

    fn decoded(value: &Value, name: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(value[name].as_str().expect("a text")).expect("base64url")
    }

    fn part(value: &Value, name: &str) -> Value {
        serde_json::from_slice(&decoded(value, name)).expect("JSON")
    }

    fn signed_text(value: &Value) -> String {
        format!("{}.{}", value["protected"].as_str().expect("a text"), value["payload"].as_str().expect("a text"))
    }

    #[test]
    fn an_account_is_asked_for_with_a_key_that_is_known_before() {
        let (_, key) = Key::generate_pkcs8().expect("a key");
        let authority = Authority::default();
        authority.answers(200, &[], DIRECTORY);
        authority.answers(200, &[("Replay-Nonce", "first")], "");
        authority.answers(400, &[], r#"{"type":"urn:ietf:params:acme:error:badNonce"}"#);
        authority.answers(200, &[("Replay-Nonce", "second")], "");
        authority.answers(201, &[("Location", "https://ca.test/account/1")], "{}");
        let registered = ask(&authority, key.secret_pkcs8_der(), true).expect("an account");
        assert_eq!(registered, Registered { id: "https://ca.test/account/1".to_owned(), is_known: false });
        let asked = std::mem::take(&mut authority.0.lock().expect("not poisoned").1);
        let order: Vec<_> = asked.iter().map(|(what, _)| what.as_str()).collect();
        let (nonce, account) = ("HEAD https://ca.test/nonce", "POST https://ca.test/account");
        assert_eq!(order, ["GET https://ca.test/dir", nonce, account, nonce, account]);

        let (_, request) = asked.last().expect("requests");
        let protected = part(request, "protected");
        assert_eq!((&protected["alg"], &protected["nonce"]), (&json!("ES256"), &json!("second")));
        assert_eq!(protected["url"], "https://ca.test/account");
        let point = [vec![4], decoded(&protected["jwk"], "x"), decoded(&protected["jwk"], "y")].concat();
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .verify(signed_text(request).as_bytes(), &decoded(request, "signature"))
            .expect("signed by the key");
        let payload = part(request, "payload");
        assert_eq!(payload["contact"], json!(["mailto:me@one.test"]));
        assert_eq!(payload["termsOfServiceAgreed"], true);
        let binding = &payload["externalAccountBinding"];
        assert_eq!(
            part(binding, "protected"),
            json!({ "alg": "HS256", "kid": "kid-1", "url": "https://ca.test/account" })
        );
        assert_eq!(part(binding, "payload"), protected["jwk"]);
        let secret = hmac::Key::new(hmac::HMAC_SHA256, b"secret");
        hmac::verify(&secret, signed_text(binding).as_bytes(), &decoded(binding, "signature")).expect("signed");
    }

    #[test]
    fn an_account_that_the_key_has_is_found_and_refusals_are_told() {
        let (_, key) = Key::generate_pkcs8().expect("a key");
        let authority = Authority::default();
        authority.answers(200, &[], DIRECTORY);
        authority.answers(200, &[("Replay-Nonce", "first")], "");
        authority.answers(200, &[("Location", "https://ca.test/account/1")], "{}");
        let registered = ask(&authority, key.secret_pkcs8_der(), false).expect("an account");
        assert!(registered.is_known);

        authority.answers(200, &[], DIRECTORY);
        for _ in 0..TRIES_MAX {
            authority.answers(204, &[("Replay-Nonce", "old")], "");
            authority.answers(400, &[], r#"{"type":"urn:ietf:params:acme:error:badNonce","detail":"too old"}"#);
        }
        let refused = ask(&authority, key.secret_pkcs8_der(), false).expect_err("no nonce is taken");
        assert!(refused.to_string().starts_with("API error: too old"), "{refused}");
        authority.answers(200, &[], "{}");
        let refused = ask(&authority, key.secret_pkcs8_der(), false).expect_err("nowhere to ask");
        assert_eq!(refused.to_string(), "missing data: newAccount in the directory");
        assert!(ask(&authority, b"no key", false).is_err());
    }
}
