//! Hashes and encodings.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::{Family, Function, Want, udf};
use crate::{
    store::conn::Cell,
    value::{SqlType, collation::Collation},
};

pub(super) const FAMILY: Family = Family { functions: FUNCTIONS, udfs: &[], aggregates: &[] };

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[rustfmt::skip]
static FUNCTIONS: &[Function] = &[
    udf("MD5", "f_md5", 1, 1, &[Want::Bytes], |_| SqlType::varchar(32, Collation::DEFAULT), |args, out| { out.text(hex(Md5::digest(args.bytes(0)))); Ok(()) }),
    udf("SHA1", "f_sha1", 1, 1, &[Want::Bytes], |_| SqlType::varchar(40, Collation::DEFAULT), |args, out| { out.text(hex(Sha1::digest(args.bytes(0)))); Ok(()) }),
    udf("SHA", "f_sha", 1, 1, &[Want::Bytes], |_| SqlType::varchar(40, Collation::DEFAULT), |args, out| { out.text(hex(Sha1::digest(args.bytes(0)))); Ok(()) }),
    udf("SHA2", "f_sha2", 2, 2, &[Want::Bytes, Want::Int], |_| SqlType::varchar(128, Collation::DEFAULT), |args, out| {
        let bytes = args.bytes(0);
        match args.int(1) {
            224 => out.text(hex(Sha224::digest(bytes))),
            0 | 256 => out.text(hex(Sha256::digest(bytes))),
            384 => out.text(hex(Sha384::digest(bytes))),
            512 => out.text(hex(Sha512::digest(bytes))),
            _ => {}
        }
        Ok(())
    }),
    udf("TO_BASE64", "f_to_base64", 1, 1, &[Want::Bytes], |args| SqlType::string(super::text_length(&args[0]).saturating_mul(6), crate::value::collation::Collation::DEFAULT), |args, out| {
        let text = STANDARD.encode(args.bytes(0));
        let lines: Vec<&str> = text.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap_or_default()).collect();
        out.text(lines.join("\n"));
        Ok(())
    }),
    udf("FROM_BASE64", "f_from_base64", 1, 1, &[Want::Text], |args| SqlType::varchar(args[0].ty.length, Collation::BINARY), |args, out| {
        let text: Vec<u8> = args.bytes(0).iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
        if let Ok(bytes) = STANDARD.decode(text) {
            out.cell(Cell::Blob(&bytes));
        }
        Ok(())
    }),
];
