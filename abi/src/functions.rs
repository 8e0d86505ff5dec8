//! Functions that a network function in C may call.
//!
//! Every function here is declared in `headgate_nf.h`; the comment there is its contract.

use std::ffi::{CStr, CString, c_char, c_int};
use std::time::Duration;

use headgate_nf::{ArgumentErrors, Context, Counter, Maker, NfError, Timer};
use serde_json::{Map, Value};

use crate::disk::Files;

/// `hg_context`: the context of the call at hand, and what must outlive it because C keeps pointers to it.
pub struct Surroundings {
    /// The context of the call at hand; null between calls.
    context: *mut Context,
    /// Error of the last function that failed.
    failure: Option<NfError>,
    arguments: Map<String, Value>,
    asked: Vec<String>,
    reads_arguments_itself: bool,
    /// Every text that was handed out.
    texts: Vec<CString>,
    counters: Vec<Counter>,
    timers: Vec<Timer>,
    pub files: Files,
    pub maker: Option<Maker>,
}

impl Surroundings {
    pub fn new(context: &Context) -> Result<Self, NfError> {
        Ok(Self {
            context: std::ptr::null_mut(),
            failure: None,
            arguments: context.arguments()?,
            asked: Vec::new(),
            reads_arguments_itself: false,
            texts: Vec::new(),
            counters: Vec::new(),
            timers: Vec::new(),
            files: Files::default(),
            maker: None,
        })
    }

    pub fn lend(&mut self, context: &mut Context) {
        self.context = context;
    }

    pub fn take_back(&mut self) {
        self.context = std::ptr::null_mut();
    }

    /// # Panics
    /// When C kept the pointer and calls outside a callback.
    pub fn context(&mut self) -> &mut Context {
        // SAFETY: not null only while `lend`'s caller lends the context to this call, which holds `self`
        // alone: everything happens in one thread, and no function here calls back into C.
        unsafe { self.context.as_mut() }.expect("a function of headgate_nf.h was called outside a callback")
    }

    /// Returns the meaning of a callback's return value.
    pub fn outcome(&mut self, returned: c_int, callback: &str) -> Result<(), NfError> {
        let failure = self.failure.take();
        if returned == 0 {
            return Ok(());
        }
        Err(failure.unwrap_or_else(|| format!("`{callback}` returned {returned}").into()))
    }

    /// Refuses arguments that nobody asked for.
    pub fn check_arguments(&self) -> Result<(), NfError> {
        let unknown = self.arguments.keys().find(|name| !self.asked.contains(name));
        match unknown {
            Some(name) if !self.reads_arguments_itself => {
                let takes = if self.asked.is_empty() { "none".to_owned() } else { self.asked.join(", ") };
                Err(of_argument(name, &format!("no such argument; it takes {takes}")).into())
            }
            _ => Ok(()),
        }
    }

    pub fn fail(&mut self, reason: impl ToString) -> c_int {
        self.fail_with(reason.to_string())
    }

    pub fn fail_with(&mut self, error: impl Into<NfError>) -> c_int {
        self.failure = Some(error.into());
        -1
    }

    /// A text for C to keep.
    fn text(&mut self, text: &str) -> *const c_char {
        let text = CString::new(text.replace('\0', "")).unwrap_or_default();
        let place = self.texts.iter().position(|known| *known == text);
        let place = place.unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        });
        self.texts[place].as_ptr()
    }

    /// An argument that C asks for by name; `None` when it is not given.
    fn argument(&mut self, name: &str) -> Option<Value> {
        if !self.asked.iter().any(|asked| asked == name) {
            self.asked.push(name.to_owned());
        }
        self.arguments.get(name).cloned()
    }
}

/// The error of an argument that is not accepted; of all of them without a name.
fn of_argument(name: &str, why: &str) -> ArgumentErrors {
    let mut errors = ArgumentErrors::default();
    errors.add((!name.is_empty()).then(|| name.into()), why);
    errors
}

/// A text from C; null reads as empty.
///
/// # Safety
/// `text` is null or ends with a zero byte.
pub unsafe fn from_c(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: by the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The surroundings behind C's pointer.
///
/// # Safety
/// `context` is the pointer a callback was given, and the callback has not returned.
pub unsafe fn behind<'a>(context: *mut Surroundings) -> &'a mut Surroundings {
    // SAFETY: by the caller's promise; C has one thread here, and no reference is kept between calls.
    unsafe { context.as_mut() }.expect("hg_context is NULL")
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_fail(context: *mut Surroundings, reason: *const c_char) -> c_int {
    // SAFETY: the header's contract.
    unsafe { behind(context).fail(from_c(reason)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_refuse(
    context: *mut Surroundings,
    argument: *const c_char,
    reason: *const c_char,
) -> c_int {
    // SAFETY: the header's contract.
    let (this, argument, reason) = unsafe { (behind(context), from_c(argument), from_c(reason)) };
    this.fail_with(of_argument(&argument, &reason))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_name(context: *mut Surroundings) -> *const c_char {
    // SAFETY: the header's contract.
    let this = unsafe { behind(context) };
    let name = this.context().name().to_owned();
    this.text(&name)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_arguments(context: *mut Surroundings) -> *const c_char {
    // SAFETY: the header's contract.
    let this = unsafe { behind(context) };
    this.reads_arguments_itself = true;
    let arguments = this.context().arguments_text().to_owned();
    this.text(&arguments)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_argument_text(
    context: *mut Surroundings,
    name: *const c_char,
    otherwise: *const c_char,
    value: *mut *const c_char,
) -> c_int {
    // SAFETY: the header's contract.
    let (this, name) = unsafe { (behind(context), from_c(name)) };
    let found = match this.argument(&name) {
        None => otherwise,
        Some(Value::String(text)) => this.text(&text),
        Some(other) => {
            return this.fail_with(of_argument(&name, &format!("expected a text, found {other}")));
        }
    };
    // SAFETY: the header's contract: `value` is there to be written.
    unsafe { value.write(found) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_argument_number(
    context: *mut Surroundings,
    name: *const c_char,
    otherwise: i64,
    value: *mut i64,
) -> c_int {
    // SAFETY: the header's contract.
    let (this, name) = unsafe { (behind(context), from_c(name)) };
    let found = match this.argument(&name) {
        None => otherwise,
        Some(argument) => match argument.as_i64() {
            Some(number) => number,
            None => {
                let why = format!("expected a whole number, found {argument}");
                return this.fail_with(of_argument(&name, &why));
            }
        },
    };
    // SAFETY: the header's contract: `value` is there to be written.
    unsafe { value.write(found) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_port(context: *mut Surroundings, name: *const c_char) -> c_int {
    // SAFETY: the header's contract.
    let (this, name) = unsafe { (behind(context), from_c(name)) };
    let port = this.context().port(&name);
    port.map_or_else(|error| this.fail_with(error), |port| c_int::from(port.number()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_stage(context: *mut Surroundings, name: *const c_char) -> c_int {
    // SAFETY: the header's contract.
    let (this, name) = unsafe { (behind(context), from_c(name)) };
    let stage = this.context().stage(&name);
    stage.map_or_else(|error| this.fail_with(error), |stage| c_int::from(stage.number()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_port_name(context: *mut Surroundings, port: u16) -> *const c_char {
    // SAFETY: the header's contract.
    let this = unsafe { behind(context) };
    let context = this.context();
    let name = context.port_numbered(port).and_then(|port| context.port_name(port));
    name.map_or(std::ptr::null(), |name| this.text(&name))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_counter(context: *mut Surroundings, name: *const c_char) -> *mut u64 {
    // SAFETY: the header's contract.
    let (this, name) = unsafe { (behind(context), from_c(name)) };
    match this.context().counter(&name) {
        Ok(counter) => {
            let address = counter.address().as_ptr().cast();
            this.counters.push(counter);
            address
        }
        Err(error) => {
            this.fail(error);
            std::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_tell(context: *mut Surroundings, body: *const c_char) -> c_int {
    // SAFETY: the header's contract.
    let (this, body) = unsafe { (behind(context), from_c(body)) };
    let told = this.context().tell(body);
    told.map_or_else(|error| this.fail(error), |()| 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_every(context: *mut Surroundings, period_ns: u64) -> u32 {
    // SAFETY: the header's contract.
    let this = unsafe { behind(context) };
    let timer = this.context().every(Duration::from_nanos(period_ns));
    this.timers.push(timer);
    timer.number()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_after(context: *mut Surroundings, wait_ns: u64) -> u32 {
    // SAFETY: the header's contract.
    let this = unsafe { behind(context) };
    let timer = this.context().after(Duration::from_nanos(wait_ns));
    this.timers.push(timer);
    timer.number()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_cancel(context: *mut Surroundings, timer: u32) {
    // SAFETY: the header's contract.
    let this = unsafe { behind(context) };
    if let Some(place) = this.timers.iter().position(|known| known.number() == timer) {
        let timer = this.timers.swap_remove(place);
        this.context().cancel(timer);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn hg_now(context: *mut Surroundings) -> u64 {
    // SAFETY: the header's contract.
    let this = unsafe { behind(context) };
    this.context().now().as_nanos() as u64
}
