//! Functions that Lua calls through the FFI: one list gives the function's shim and its C declaration, so that the two cannot
//! differ.
//!
//! ```text
//! ffi: ffi_functions! { escape as "escape": (Bytes, c_int, TextOut) },
//!
//! fn escape(text: &[u8], kind: c_int, out: &mut Vec<u8>) { … }
//! ```
//!
//! | in the list | in C | the Rust function gets |
//! | --- | --- | --- |
//! | `c_int`, `u32`, `f64`, `usize` | `int`, `uint32_t`, `double`, `size_t` | the number |
//! | `Bytes` | `const char *, size_t` | `&[u8]`; null is empty |
//! | `OptBytes` | the same | `Option<&[u8]>`; null is `None` |
//! | `TextOut` | `tg_str *` | `&mut Vec<u8>`: what it writes is where the Lua half copies it from |
//! | `Out<T>` | `T *` | `&mut T`, at first the default value |
//! | `Handle<T>` | `uint32_t` | `&T`; the function is not called for the number of nothing |
//!
//! Nothing that a script can hold of these is an address: a wrong number is the number of nothing, or of another object of
//! the same type. Null is accepted everywhere. What remains is that a pointer and its length belong together, which the
//! Lua halves do by writing `text, #text`; that a struct is one is LuaJIT's to check, by the type that is declared here.
//!
//! A panic gives the result's [`FfiResult::FAILED`], and ends the request ([`crate::panics`]).

use std::cell::{Ref, RefCell, RefMut};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::thread::LocalKey;

/// A function called through the FFI.
pub(crate) struct FfiFunction {
    /// Name in the `native` table.
    pub(crate) name: &'static str,
    /// C type of the result.
    pub(crate) result: &'static str,
    /// C types of the parameters.
    pub(crate) parameters: &'static [&'static str],
    /// Its address.
    pub(crate) address: Address,
}

impl FfiFunction {
    /// The type of a pointer to it, as C declares it: `int (*)(double)`.
    pub(crate) fn ctype(&self) -> String {
        let parameters = if self.parameters.is_empty() { "void".to_owned() } else { self.parameters.join(", ") };
        format!("{} (*)({parameters})", self.result)
    }
}

/// The address of a function.
pub(crate) struct Address(pub(crate) *const c_void);

// SAFETY: the address of a function, which is never written through.
unsafe impl Sync for Address {}

/// A type of results.
pub(crate) trait FfiResult {
    /// Its name in C.
    const C: &'static str;
    /// The result of a function that was not called, or panicked.
    const FAILED: Self;
}

/// A type of numbers as parameters.
pub(crate) trait Number {
    /// Its name in C.
    const C: &'static str;
}

/// A type of structs that functions fill for their Lua halves.
pub(crate) trait Filled: Copy + Default {
    /// The name of a pointer to it in C.
    const POINTER: &'static str;
}

macro_rules! numbers {
    ($($rust:ty, $c:literal, $failed:expr;)*) => {$(
        impl FfiResult for $rust {
            const C: &'static str = $c;
            const FAILED: Self = $failed;
        }
        impl Number for $rust {
            const C: &'static str = $c;
        }
    )*};
}

numbers! {
    c_int, "int", -1;
    u32, "uint32_t", 0;
    f64, "double", -1.0;
    usize, "size_t", 0;
}

impl FfiResult for () {
    const C: &'static str = "void";
    const FAILED: Self = ();
}

impl FfiResult for bool {
    const C: &'static str = "bool";
    const FAILED: Self = false;
}

/// To be compared only.
impl FfiResult for *const c_void {
    const C: &'static str = "const void *";
    const FAILED: Self = std::ptr::null();
}

impl Filled for f64 {
    const POINTER: &'static str = "double *";
}

/// A string that an FFI function gives to its Lua half, which copies it at once: `tg_str` in C.
#[repr(C)]
pub(crate) struct Text {
    data: *const u8,
    len: usize,
}

/// A text that grew beyond this is not kept for the next one.
const TEXT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// Where texts are written. It stays as it is until the next call, long after the Lua half's copy.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The cell of a thread-local key, for the time of one call: a guard can hold it, which a closure's reference does not allow.
///
/// # Safety
/// The result is used before the function that Lua called returns, hence before the thread ends.
#[inline]
unsafe fn cell_of<T>(key: &'static LocalKey<RefCell<T>>) -> &'static RefCell<T> {
    // SAFETY: as the function demands; what is thread-local stays in its place.
    key.with(|cell| unsafe { &*ptr::from_ref(cell) })
}

/// The buffer while a function writes its text.
pub(crate) struct TextOut {
    text: RefMut<'static, Vec<u8>>,
    out: *mut Text,
}

impl TextOut {
    /// Takes the buffer; when this is dropped, `out` says where it is.
    ///
    /// # Safety
    /// `out` is null or points to a `tg_str` of the Lua half's, which outlives this; this does not outlive the function that
    /// Lua called.
    #[inline]
    pub(crate) unsafe fn begin(out: *mut Text) -> Self {
        // SAFETY: as this function demands.
        let mut text = unsafe { cell_of(&BUFFER) }.borrow_mut();
        if text.capacity() > TEXT_BYTES_MAX {
            *text = Vec::new();
        }
        text.clear();
        Self { text, out }
    }

    /// What is written so far: nothing.
    #[inline]
    pub(crate) fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }
}

impl Drop for TextOut {
    #[inline]
    fn drop(&mut self) {
        if !self.out.is_null() {
            // SAFETY: `begin` was told so.
            unsafe { self.out.write(Text { data: self.text.as_ptr(), len: self.text.len() }) };
        }
    }
}

/// The bytes that a Lua half passes.
///
/// # Safety
/// `data` is null, or points to `len` bytes that outlive the result: those of a string that is an argument of the call.
#[inline]
pub(crate) unsafe fn bytes_of<'a>(data: *const u8, len: usize) -> Option<&'a [u8]> {
    if data.is_null() {
        return None;
    }
    // SAFETY: as the function demands; a slice is never longer than `isize::MAX`.
    Some(unsafe { std::slice::from_raw_parts(data, len.min(isize::MAX as usize)) })
}

/// A struct of the Lua half's with the default value.
///
/// # Safety
/// `out` is null, or points to a `T` that outlives the result and is nobody else's meanwhile.
#[inline]
pub(crate) unsafe fn emptied<'a, T: Filled>(out: *mut T) -> Option<&'a mut T> {
    if out.is_null() {
        return None;
    }
    // SAFETY: as the function demands.
    unsafe {
        out.write(T::default());
        Some(&mut *out)
    }
}

/// Bits of a handle that are the index of its object; the others count how often the place was used.
const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;

/// Objects of one type that scripts of this thread hold by number.
pub(crate) struct Handles<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

struct Place<T> {
    generation: u32,
    object: Option<Rc<T>>,
}

/// A type of objects that scripts hold by number. They belong to the thread, and so to the machines on it.
pub(crate) trait Handled: Sized + 'static {
    /// Those of this thread.
    fn handles() -> &'static LocalKey<RefCell<Handles<Self>>>;
}

impl<T: Handled> Handles<T> {
    /// A table without objects.
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    fn insert(&mut self, object: T) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.places.len()).ok().filter(|&index| index <= INDEX_MASK)?;
                self.places.push(Place { generation: 0, object: None });
                index
            }
        };
        let place = &mut self.places[index as usize];
        place.object = Some(Rc::new(object));
        Some(place.generation << INDEX_BITS | index)
    }

    #[inline]
    fn object(&self, handle: u32) -> Option<&Rc<T>> {
        let place = self.places.get((handle & INDEX_MASK) as usize)?;
        if place.generation == handle >> INDEX_BITS { place.object.as_ref() } else { None }
    }

    fn place(&mut self, handle: u32) -> Option<&mut Place<T>> {
        self.places.get_mut((handle & INDEX_MASK) as usize).filter(|place| place.generation == handle >> INDEX_BITS)
    }
}

/// Gives an object a number; `None` when a million are there.
pub(crate) fn hold<T: Handled>(object: T) -> Option<u32> {
    T::handles().with_borrow_mut(|handles| handles.insert(object))
}

/// The object with a number, for functions that may run Lua code.
pub(crate) fn find<T: Handled>(handle: u32) -> Option<Rc<T>> {
    T::handles().with_borrow(|handles| handles.object(handle).cloned())
}

/// The object with a number, for a function called through the FFI: it runs no Lua code, so that nothing is released
/// meanwhile.
///
/// # Safety
/// The result does not outlive the function that Lua called.
#[inline]
pub(crate) unsafe fn borrow<T: Handled>(handle: u32) -> Option<Ref<'static, T>> {
    // SAFETY: as this function demands.
    let handles = unsafe { cell_of(T::handles()) }.borrow();
    Ref::filter_map(handles, |handles| handles.object(handle).map(|object| &**object)).ok()
}

/// Takes the number from its object, which goes unless a function is busy with it. Wrong numbers do nothing.
pub(crate) fn release<T: Handled>(handle: u32) {
    // Machines may end with their thread, when the table is gone already.
    let object = T::handles().try_with(|handles| {
        let mut handles = handles.borrow_mut();
        let place = handles.place(handle)?;
        let object = place.object.take()?;
        place.generation = (place.generation + 1) & (u32::MAX >> INDEX_BITS);
        handles.free.push(handle & INDEX_MASK);
        Some(object)
    });
    drop(object);
}

/// Lists FFI functions; this module's page has the types of parameters.
macro_rules! ffi_functions {
    ($($function:ident as $name:literal: ($($parameters:tt)*) $(-> $result:ty)?),* $(,)?) => {
        &[$($crate::api::compiled::ffi_function!(@result $function $name [$($result)?] $($parameters)*)),*]
    };
}
pub(crate) use ffi_functions;

/// One of them: takes the parameters one by one, and collects those of the shim, what it does with them before and in
/// the place of the call, and the C types.
macro_rules! ffi_function {
    (@result $function:ident $name:literal [] $($rest:tt)*) => {
        $crate::api::compiled::ffi_function!(@take $function $name () [] [] [] [] [] $($rest)*)
    };
    (@result $function:ident $name:literal [$result:ty] $($rest:tt)*) => {
        $crate::api::compiled::ffi_function!(@take $function $name ($result) [] [] [] [] [] $($rest)*)
    };
    (@take $function:ident $name:literal $result:tt [$($raw:tt)*] [$($before:tt)*] [$($argument:tt)*]
        [$($failed:tt)*] [$($c:tt)*] Bytes $(, $($rest:tt)*)?) => {
        $crate::api::compiled::ffi_function!(@take $function $name $result
            [$($raw)* data: *const u8, len: usize,]
            // SAFETY: the Lua half passes a string, which is an argument of this call, with its length.
            [$($before)* let bytes = unsafe { $crate::api::compiled::bytes_of(data, len) }.unwrap_or_default();]
            [$($argument)* bytes,] [$($failed)*] [$($c)* "const char *", "size_t",] $($($rest)*)?)
    };
    (@take $function:ident $name:literal $result:tt [$($raw:tt)*] [$($before:tt)*] [$($argument:tt)*]
        [$($failed:tt)*] [$($c:tt)*] OptBytes $(, $($rest:tt)*)?) => {
        $crate::api::compiled::ffi_function!(@take $function $name $result
            [$($raw)* data: *const u8, len: usize,]
            // SAFETY: the Lua half passes nil, or a string, which is an argument of this call, with its length.
            [$($before)* let bytes = unsafe { $crate::api::compiled::bytes_of(data, len) };]
            [$($argument)* bytes,] [$($failed)*] [$($c)* "const char *", "size_t",] $($($rest)*)?)
    };
    (@take $function:ident $name:literal $result:tt [$($raw:tt)*] [$($before:tt)*] [$($argument:tt)*]
        [$($failed:tt)*] [$($c:tt)*] TextOut $(, $($rest:tt)*)?) => {
        $crate::api::compiled::ffi_function!(@take $function $name $result
            [$($raw)* out: *mut $crate::api::compiled::Text,]
            // SAFETY: by the declaration LuaJIT accepts nil or a `tg_str` only.
            [$($before)* let mut text = unsafe { $crate::api::compiled::TextOut::begin(out) };]
            [$($argument)* text.text(),] [$($failed)*] [$($c)* "tg_str *",] $($($rest)*)?)
    };
    (@take $function:ident $name:literal $result:tt [$($raw:tt)*] [$($before:tt)*] [$($argument:tt)*]
        [$($failed:tt)*] [$($c:tt)*] Out<$filled:ty> $(, $($rest:tt)*)?) => {
        $crate::api::compiled::ffi_function!(@take $function $name $result
            [$($raw)* out: *mut $filled,]
            [$($before)*
                let mut unwanted;
                // SAFETY: by the declaration LuaJIT accepts nil or such a struct only; nobody else looks at it meanwhile.
                let filled = match unsafe { $crate::api::compiled::emptied(out) } {
                    Some(filled) => filled,
                    None => {
                        unwanted = <$filled>::default();
                        &mut unwanted
                    }
                };
            ]
            [$($argument)* filled,]
            // SAFETY: as above.
            [$($failed)* if !out.is_null() { unsafe { out.write(<$filled>::default()) } }]
            [$($c)* <$filled as $crate::api::compiled::Filled>::POINTER,] $($($rest)*)?)
    };
    (@take $function:ident $name:literal ($($result:ty)?) [$($raw:tt)*] [$($before:tt)*] [$($argument:tt)*]
        [$($failed:tt)*] [$($c:tt)*] Handle<$object:ty> $(, $($rest:tt)*)?) => {
        $crate::api::compiled::ffi_function!(@take $function $name ($($result)?)
            [$($raw)* handle: u32,]
            // SAFETY: the shim drops it.
            [$($before)* let object = unsafe { $crate::api::compiled::borrow::<$object>(handle) }?;]
            [$($argument)* &object,] [$($failed)*] [$($c)* "uint32_t",] $($($rest)*)?)
    };
    (@take $function:ident $name:literal $result:tt [$($raw:tt)*] [$($before:tt)*] [$($argument:tt)*]
        [$($failed:tt)*] [$($c:tt)*] $number:ident $(, $($rest:tt)*)?) => {
        $crate::api::compiled::ffi_function!(@take $function $name $result
            [$($raw)* number: $number,] [$($before)*] [$($argument)* number,] [$($failed)*]
            [$($c)* <$number as $crate::api::compiled::Number>::C,] $($($rest)*)?)
    };
    (@take $function:ident $name:literal () $($collected:tt)*) => {
        $crate::api::compiled::ffi_function!(@end $function $name (()) $($collected)*)
    };
    (@take $function:ident $name:literal ($result:ty) $($collected:tt)*) => {
        $crate::api::compiled::ffi_function!(@end $function $name ($result) $($collected)*)
    };
    (@end $function:ident $name:literal ($result:ty) [$($raw:tt)*] [$($before:tt)*] [$($argument:tt)*]
        [$($failed:tt)*] [$($c:tt)*]) => {{
        unsafe extern "C" fn shim($($raw)*) -> $result {
            let called = $crate::panics::ffi_guard(move || {
                $($before)*
                let result: $result = $function($($argument)*);
                Some(result)
            });
            match called {
                Some(Some(result)) => result,
                _ => {
                    $($failed)*
                    <$result as $crate::api::compiled::FfiResult>::FAILED
                }
            }
        }
        $crate::api::compiled::FfiFunction {
            name: $name,
            result: <$result as $crate::api::compiled::FfiResult>::C,
            parameters: &[$($c)*],
            address: $crate::api::compiled::Address(shim as *const ::std::ffi::c_void),
        }
    }};
}
pub(crate) use ffi_function;
