//! Chains as OpenSSL 3.0 judges them, in nginx 1.22 beside the same ones.

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose as Purpose, GeneralSubtree,
    IsCa, Issuer, KeyPair, KeyUsagePurpose as Usage, NameConstraints, SanType,
};
use rustls::pki_types::{CertificateRevocationListDer, UnixTime};

use super::*;
use crate::verify::Rules;

/// A certificate with its key, which can sign others.
struct Owner {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

fn params(name: &str, more: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    more(&mut params);
    params
}

fn root(name: &str, more: impl FnOnce(&mut CertificateParams)) -> Owner {
    let (params, key) = (params(name, more), KeyPair::generate().expect("a key"));
    let certificate = params.self_signed(&key).expect("signed").der().clone();
    Owner { certificate, issuer: Issuer::new(params, key) }
}

impl Owner {
    fn signs(&self, name: &str, more: impl FnOnce(&mut CertificateParams)) -> Self {
        let (params, key) = (params(name, more), KeyPair::generate().expect("a key"));
        let certificate = params.signed_by(&key, &self.issuer).expect("signed").der().clone();
        Self { certificate, issuer: Issuer::new(params, key) }
    }
}

fn nothing(_: &mut CertificateParams) {}

fn authority(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

fn with_unknown(params: &mut CertificateParams) {
    let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
    extension.set_criticality(true);
    params.custom_extensions.push(extension);
}

fn judge(trusted: &[&Owner], shown: &[&Owner], side: Side) -> Result<(), VerifyError> {
    let ders = |owners: &[&Owner]| owners.iter().map(|owner| owner.certificate.clone()).collect::<Vec<_>>();
    let rules = Rules::new(&ders(trusted), &[], None).expect("no lists");
    let shown = ders(shown);
    rules.verify(&shown[0], &shown[1..], side, UnixTime::now())
}

#[track_caller]
fn check(trusted: &[&Owner], shown: &[&Owner], expected: Result<(), VerifyError>) {
    for side in [Side::Client, Side::Server] {
        assert_eq!(judge(trusted, shown, side), expected, "{side:?}");
    }
}

#[test]
fn a_trusted_certificate_that_is_no_authority_is_trusted_for_itself_only() {
    use VerifyError::{InvalidCa, NoCertSign};
    let plain = root("alice", nothing);
    let explicit = root("bob", |params| params.is_ca = IsCa::ExplicitNoCa);
    let signer = root("carol", |params| params.key_usages = vec![Usage::DigitalSignature]);
    let authority_without_use = root("dora", |params| {
        authority(params);
        params.key_usages = vec![Usage::DigitalSignature];
    });
    for (pinned, expected) in
        [(plain, InvalidCa), (explicit, InvalidCa), (signer, NoCertSign), (authority_without_use, NoCertSign)]
    {
        let boss = root("boss", nothing);
        check(&[&pinned, &boss], &[&pinned], Ok(()));
        let forged = pinned.signs("boss", nothing);
        check(&[&pinned, &boss], &[&forged], Err(expected));
        check(&[&pinned, &boss], &[&forged, &pinned], Err(expected));
        // One that the library leaves to the search of its own.
        let forged = pinned.signs("boss", authority);
        check(&[&pinned, &boss], &[&forged, &pinned], Err(expected));
        let between = pinned.signs("between", authority);
        check(&[&pinned, &boss], &[&between.signs("boss", nothing), &between], Err(expected));
    }
    // The same name is not the same certificate.
    check(&[&root("alice", nothing)], &[&root("alice", nothing)], Err(VerifyError::BadSignature));
}

#[test]
fn trusted_authorities_are_held_to_what_they_say() {
    let year = |params: &mut CertificateParams, [from, to]: [i32; 2]| {
        [params.not_before, params.not_after] = [from, to].map(|year| rcgen::date_time_ymd(year, 1, 1));
    };
    let check_root = |more: &dyn Fn(&mut CertificateParams), expected: [Result<(), VerifyError>; 2]| {
        let root = root("root", |params| {
            authority(params);
            more(params);
        });
        for (side, expected) in [Side::Client, Side::Server].into_iter().zip(expected) {
            let leaf = root.signs("leaf", nothing);
            assert_eq!(judge(&[&root], &[&leaf], side), expected);
            let between = root.signs("between", authority);
            let leaf = between.signs("leaf", authority);
            assert_eq!(judge(&[&root], &[&leaf, &between], side), expected, "the search of its own");
        }
    };
    check_root(&nothing, [Ok(()); 2]);
    check_root(&|params| params.key_usages = vec![Usage::KeyCertSign], [Ok(()); 2]);
    check_root(&|params| year(params, [2001, 2002]), [Err(VerifyError::Expired); 2]);
    check_root(&|params| year(params, [4000, 4001]), [Err(VerifyError::NotYetValid); 2]);
    check_root(&with_unknown, [Err(VerifyError::CriticalExtension); 2]);
    check_root(&|params| params.extended_key_usages = vec![Purpose::ServerAuth], [Err(VerifyError::Purpose), Ok(())]);
    // An old one and a new one with the same name and key.
    let (params, key) = (params("root", authority), KeyPair::generate().expect("a key"));
    let new = params.self_signed(&key).expect("signed").der().clone();
    let mut old = params.clone();
    year(&mut old, [2001, 2002]);
    let old = old.self_signed(&key).expect("signed").der().clone();
    let issuer = || Issuer::new(params.clone(), KeyPair::from_pem(&key.serialize_pem()).expect("a key"));
    let [old, new] = [old, new].map(|certificate| Owner { certificate, issuer: issuer() });
    check(&[&old, &new], &[&new.signs("leaf", nothing)], Ok(()));
}

// `openssl req -x509 -newkey ed448 -nodes -subj /CN=large -outform DER`
const LARGE: &[u8] = include_bytes!("../../tests/ed448.der");

#[test]
fn keys_that_nobody_can_verify_by_are_known() {
    use crate::verify::has_usable_key;
    assert!(has_usable_key(&root("root", authority).certificate));
    assert!(!has_usable_key(&CertificateDer::from(LARGE)));
    assert!(!has_usable_key(&CertificateDer::from(&LARGE[..40])));
}

#[test]
fn lengths_of_paths_count_for_trusted_ones_too() {
    let root = root("root", |params| params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0)));
    check(&[&root], &[&root.signs("leaf", nothing)], Ok(()));
    let between = root.signs("between", authority);
    check(&[&root], &[&between.signs("leaf", nothing), &between], Err(VerifyError::PathLength));
    check(&[&root], &[&between.signs("leaf", authority), &between], Err(VerifyError::PathLength));
}

#[test]
fn an_issuer_in_between_needs_a_key_for_certificates() {
    let root = root("root", authority);
    let with = |usages: &[Usage]| {
        let between = root.signs("between", |params| {
            authority(params);
            params.key_usages = usages.to_vec();
        });
        judge(&[&root], &[&between.signs("leaf", nothing), &between], Side::Client)
    };
    assert_eq!(with(&[]), Ok(()));
    assert_eq!(with(&[Usage::KeyCertSign, Usage::CrlSign]), Ok(()));
    assert_eq!(with(&[Usage::DigitalSignature]), Err(VerifyError::NoCertSign));
}

#[test]
fn common_names_are_names_where_there_are_no_others() {
    let root = root("root", authority);
    let between = |permitted: &[&str], excluded: &[&str]| {
        let subtrees = |names: &[&str]| names.iter().map(|name| GeneralSubtree::DnsName((*name).into())).collect();
        root.signs("between", |params| {
            authority(params);
            params.name_constraints = Some(NameConstraints {
                permitted_subtrees: subtrees(permitted),
                excluded_subtrees: subtrees(excluded),
            });
        })
    };
    let named =
        |name: &str, between: &Owner, side: Side| judge(&[&root], &[&between.signs(name, nothing), between], side);
    let refused = Err(VerifyError::Subtree);
    let permitted = between(&["ok.test"], &[]);
    let excluded = between(&[], &["bad.test"]);
    for (name, between, client, server) in [
        ("h.test", &permitted, refused, refused),
        ("ok.test", &permitted, Ok(()), Ok(())),
        ("a.OK.test", &permitted, Ok(()), Ok(())),
        ("*.ok.test", &permitted, Ok(()), Ok(())),
        ("*.test", &permitted, refused, refused),
        ("nok.test", &permitted, refused, refused),
        ("h.test.", &permitted, refused, refused),
        ("h.test", &excluded, Ok(()), Ok(())),
        ("a.bad.test", &excluded, refused, refused),
        // A client may be a person, and a server of that name a machine nearby.
        ("alice", &permitted, Ok(()), refused),
        ("Alice of Tide", &permitted, Ok(()), Ok(())),
    ] {
        assert_eq!(named(name, between, Side::Client), client, "{name}");
        assert_eq!(named(name, between, Side::Server), server, "{name}");
    }
    // With names of DNS the common one is none.
    let leaf = permitted.signs("h.test", |params| {
        params.subject_alt_names = vec![SanType::DnsName("a.ok.test".try_into().expect("a name"))];
    });
    check(&[&root], &[&leaf, &permitted], Ok(()));
    let leaf = permitted.signs("h.test", |params| {
        params.subject_alt_names = vec![SanType::Rfc822Name("a@b.test".try_into().expect("an address"))];
    });
    check(&[&root], &[&leaf, &permitted], refused);
    // A trusted authority's constraints, whoever follows the chain.
    let constrained = self::root("constrained", |params| {
        authority(params);
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName("ok.test".into())],
            excluded_subtrees: Vec::new(),
        });
    });
    check(&[&constrained], &[&constrained.signs("h.test", nothing)], refused);
    check(&[&constrained], &[&constrained.signs("h.test", authority)], Err(VerifyError::CriticalExtension));
}

#[test]
fn the_key_of_a_peer_is_for_what_it_does() {
    let root = root("root", authority);
    let of = |more: &dyn Fn(&mut CertificateParams)| {
        [Side::Client, Side::Server].map(|side| judge(&[&root], &[&root.signs("leaf", more)], side))
    };
    let no = Err(VerifyError::Purpose);
    let usage = |usage: Usage| of(&|params| params.key_usages = vec![usage]);
    assert_eq!(usage(Usage::DigitalSignature), [Ok(()), Ok(())]);
    assert_eq!(usage(Usage::KeyAgreement), [Ok(()), Ok(())]);
    assert_eq!(usage(Usage::KeyEncipherment), [no, Ok(())]);
    assert_eq!(usage(Usage::KeyCertSign), [no, no]);
    let purpose = |purpose: Purpose| of(&|params| params.extended_key_usages = vec![purpose.clone()]);
    assert_eq!(purpose(Purpose::ClientAuth), [Ok(()), no]);
    assert_eq!(purpose(Purpose::ServerAuth), [no, Ok(())]);
    assert_eq!(of(&with_unknown), [Err(VerifyError::CriticalExtension); 2]);
    // The same for one that is trusted itself.
    let pinned = self::root("pinned", |params| params.key_usages = vec![Usage::KeyCertSign]);
    check(&[&pinned], &[&pinned], no);
    // A stranger's purpose is no question.
    let stranger = self::root("stranger", authority)
        .signs("leaf", |params| params.extended_key_usages = vec![Purpose::ServerAuth]);
    assert_eq!(judge(&[&root], &[&stranger], Side::Client), Err(VerifyError::UnknownIssuer));
}

#[test]
fn lists_count_that_their_issuer_may_sign_when_their_time_has_come() {
    use rcgen::{CertificateRevocationListParams, KeyIdMethod, SerialNumber};
    let judge = |usages: &[Usage], [from, to]: [i32; 2]| {
        let root = root("root", |params| {
            authority(params);
            params.key_usages = usages.to_vec();
        });
        let leaf = root.signs("leaf", nothing);
        // The key of the authority signs a list whatever it says.
        let signer = Issuer::new(
            params("root", authority),
            KeyPair::from_pem(&root.issuer.key().serialize_pem()).expect("a key"),
        );
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(from, 1, 1),
            next_update: rcgen::date_time_ymd(to, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = CertificateRevocationListDer::from(list.signed_by(&signer).expect("signed").der().to_vec());
        let rules = Rules::new(&[root.certificate], &[list], None).expect("a list");
        rules.verify(&leaf.certificate, &[], Side::Client, UnixTime::now())
    };
    let now = [2001, 4000];
    assert_eq!(judge(&[], now), Ok(()));
    assert_eq!(judge(&[Usage::KeyCertSign, Usage::CrlSign], now), Ok(()));
    assert_eq!(judge(&[Usage::KeyCertSign], now), Err(VerifyError::NoCrlSign));
    assert_eq!(judge(&[], [4000, 4001]), Err(VerifyError::CrlNotYetValid));
    assert_eq!(judge(&[], [2001, 2002]), Err(VerifyError::CrlExpired));
}
