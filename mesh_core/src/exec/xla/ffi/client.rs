//! Clients: a plugin's devices. A client ends when nobody holds it, or anything of it, any more.
#![allow(unsafe_code, reason = "calls a plugin's functions")]

use std::{ptr, slice};

use super::super::super::sync::{Arc, Mutex};
use super::header::{
    ClientCreate, ClientDestroy, DeviceDescription, DeviceId, Devices, Handle, INTEGER, NamedValue,
    PlatformName,
};
use super::{Api, Failed, words};

/// The devices of one kind that this process has.
#[derive(Debug)]
pub(in super::super) struct Client {
    pub(super) api: Api,
    pub(super) client: Handle,
    pub(super) devices: Vec<Handle>,
    /// What the plugin calls the devices, in the same order.
    ids: Vec<i64>,
    platform: String,
    /// Held while a program is started: all devices are to run programs that meet in one order.
    pub(super) starting: Mutex<()>,
}

// SAFETY: the interface lets any thread use a client; nothing else here changes.
unsafe impl Send for Client {}
// SAFETY: the interface lets several threads use a client; nothing else here changes.
unsafe impl Sync for Client {}

impl Client {
    /// The client of a plugin, made with options of these names.
    pub(in super::super) fn new(api: Api, options: &[(&str, i64)]) -> Result<Arc<Self>, Failed> {
        let named: Vec<_> = options.iter().map(|(name, value)| integer(name, *value)).collect();
        let mut made = ClientCreate {
            options: named.as_ptr(),
            option_count: named.len(),
            ..ClientCreate::default()
        };
        // SAFETY: the options outlive the call; there are no callbacks.
        unsafe { api.call(&mut made)? };
        let (devices, ids, platform) = (Vec::new(), Vec::new(), String::new());
        // From here on the client ends with this.
        let starting = Mutex::default();
        let mut own = Self { api, client: made.client, devices, ids, platform, starting };
        let client = own.client;
        let mut name = PlatformName { client, ..PlatformName::default() };
        let mut listed = Devices { client, ..Devices::default() };
        // SAFETY: the client is alive; name and list live as long as it, and both are copied.
        unsafe {
            api.call(&mut name)?;
            own.platform = words(name.name, name.size);
            api.call(&mut listed)?;
            own.devices = list(listed.devices, listed.device_count);
        }
        own.ids = own.devices.iter().map(|device| own.id(*device)).collect::<Result<_, _>>()?;
        Ok(Arc::new(own))
    }

    fn id(&self, device: Handle) -> Result<i64, Failed> {
        let mut described = DeviceDescription { device, ..DeviceDescription::default() };
        // SAFETY: the device is one of this client's, and so is its description.
        unsafe {
            self.api.call(&mut described)?;
            let description = described.description;
            let mut id = DeviceId { description, ..DeviceId::default() };
            self.api.call(&mut id)?;
            Ok(id.id.into())
        }
    }

    /// The kind of device: `cpu`, `cuda`, `rocm`, `tpu`.
    pub(in super::super) fn platform(&self) -> &str {
        &self.platform
    }

    /// What the plugin calls the devices.
    pub(in super::super) fn ids(&self) -> &[i64] {
        &self.ids
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let mut ended = ClientDestroy { client: self.client, ..ClientDestroy::default() };
        // SAFETY: whatever belongs to the client holds it, so nothing of it is left. What the plugin says
        // of this changes nothing any more.
        let _ = unsafe { self.api.call(&mut ended) };
    }
}

/// An option that is an integer.
fn integer(name: &str, value: i64) -> NamedValue {
    NamedValue {
        struct_size: size_of::<NamedValue>(),
        extension_start: ptr::null_mut(),
        name: name.as_ptr(),
        name_size: name.len(),
        kind: INTEGER,
        value: value.cast_unsigned(),
        size: 1,
    }
}

/// A copy of a list of the plugin's.
///
/// # Safety
///
/// There are so many things at this address, or it is null.
pub(super) unsafe fn list<T: Copy>(first: *const T, count: usize) -> Vec<T> {
    if first.is_null() {
        return Vec::new();
    }
    // SAFETY: so many things are there.
    unsafe { slice::from_raw_parts(first, count) }.to_vec()
}
