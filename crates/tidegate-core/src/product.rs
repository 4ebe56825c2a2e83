//! How the program presents itself.

/// Name and version as the `Server` field and the error pages show them.
static PRODUCT: std::sync::OnceLock<Product> = std::sync::OnceLock::new();

/// Name and version of the program.
#[derive(Debug, Clone)]
pub struct Product {
    /// E.g. `nginx`.
    pub name: &'static str,
    /// E.g. `nginx/1.27.1`.
    pub name_and_version: &'static str,
}

/// Sets under which name the program presents itself. The first call decides.
pub fn set_product(product: Product) {
    let _ = PRODUCT.set(product);
}

/// Makes the text of [`configure_arguments`].
static CONFIGURE_ARGUMENTS: std::sync::OnceLock<fn() -> String> = std::sync::OnceLock::new();

/// Sets what tells how the program was built. The first call decides.
pub fn set_configure_arguments(text: fn() -> String) {
    let _ = CONFIGURE_ARGUMENTS.set(text);
}

/// How the program was built, in the words of nginx's `configure`: what `-V` prints.
pub fn configure_arguments() -> String {
    CONFIGURE_ARGUMENTS.get().map_or_else(String::new, |text| text())
}

/// How the program presents itself.
pub fn product() -> &'static Product {
    PRODUCT
        .get_or_init(|| Product { name: "tidegate", name_and_version: concat!("tidegate/", env!("CARGO_PKG_VERSION")) })
}
