//! Arrays on devices.
#![allow(unsafe_code, reason = "calls a plugin's functions")]

use std::ptr;

use super::super::super::sync::Arc;
use super::client::Client;
use super::header::{
    BufferDestroy, BufferIsDeleted, EventAwait, EventDestroy, FromHost, Handle, MemoryLayout,
    TILED_SIZE, ToHost,
};
use super::{Api, Failed};
use crate::array::ArrayRef;
use crate::names::DType;

/// The host's data need to be there while the call lasts only.
const DURING_CALL: u32 = 0;

/// Elements of arrays, by the numbers of `PJRT_Buffer_Type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Element {
    Bool = 1,
    I32 = 4,
    U32 = 8,
    F32 = 11,
    F64 = 12,
    BF16 = 13,
}

impl Element {
    fn size(self) -> usize {
        match self {
            Self::Bool => 1,
            Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }
}

impl From<DType> for Element {
    fn from(dtype: DType) -> Self {
        match dtype {
            DType::F32 => Self::F32,
            DType::F64 => Self::F64,
            DType::BF16 => Self::BF16,
            DType::I32 => Self::I32,
            DType::Bool => Self::Bool,
        }
    }
}

/// An array on a device.
#[derive(Debug)]
pub(in super::super) struct Buffer {
    pub(super) client: Arc<Client>,
    pub(super) buffer: Handle,
    pub(super) rank: usize,
}

// SAFETY: the interface lets any thread use a buffer.
unsafe impl Send for Buffer {}
// SAFETY: the interface lets several threads use a buffer.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Copies an array of these sizes to a device: elements in declared order, little-endian.
    pub(in super::super) fn upload(
        client: &Arc<Client>,
        device: usize,
        element: Element,
        sizes: &[usize],
        bytes: &[u8],
    ) -> Result<Self, Failed> {
        if bytes.len() != sizes.iter().product::<usize>() * element.size() {
            let message = format!("{} bytes for an array {sizes:?} of a device", bytes.len());
            return Err(Failed::new("INVALID_ARGUMENT", message));
        }
        // SAFETY: there are as many bytes as sizes and elements say.
        unsafe { Self::send(client, device, element, sizes, bytes.as_ptr()) }
    }

    /// Copies an array to a device, from where it lies if its elements do so in declared order.
    pub(in super::super) fn upload_array(
        client: &Arc<Client>,
        device: usize,
        array: &ArrayRef<'_>,
    ) -> Result<Self, Failed> {
        macro_rules! send {
            ($array:expr, $element:expr) => {{
                let array = $array.as_standard_layout();
                let first = array.as_ptr().cast();
                // SAFETY: in this layout elements lie one behind the other, as many as the shape says.
                unsafe { Self::send(client, device, $element, array.shape(), first) }
            }};
        }
        match array {
            ArrayRef::F32(array) => send!(array, Element::F32),
            ArrayRef::F64(array) => send!(array, Element::F64),
            ArrayRef::BF16(array) => send!(array, Element::BF16),
            ArrayRef::I32(array) => send!(array, Element::I32),
            ArrayRef::Bool(array) => send!(array, Element::Bool),
            ArrayRef::Integers(_) => {
                let message = "integers of a type that devices do not have".to_owned();
                Err(Failed::new("INVALID_ARGUMENT", message))
            }
        }
    }

    /// Copies elements to a device.
    ///
    /// # Safety
    ///
    /// Behind the first byte lie as many elements as the sizes say.
    unsafe fn send(
        client: &Arc<Client>,
        device: usize,
        element: Element,
        sizes: &[usize],
        first: *const u8,
    ) -> Result<Self, Failed> {
        let Some(device) = client.devices.get(device).copied() else {
            return Err(Failed::new("INVALID_ARGUMENT", format!("there is no device {device}")));
        };
        let sizes: Vec<_> = sizes.iter().map(|size| *size as i64).collect();
        let mut sent = FromHost {
            client: client.client,
            data: first,
            element: element as u32,
            sizes: sizes.as_ptr(),
            rank: sizes.len(),
            semantics: DURING_CALL,
            device,
            ..FromHost::default()
        };
        // SAFETY: client and device are alive; the caller says that the elements are there, and nobody looks at them
        // after the call.
        unsafe { client.api.call(&mut sent)? };
        // SAFETY: the event is this call's own; nobody waits for it.
        unsafe { destroy_event(client.api, sent.done) };
        Ok(Self { client: Arc::clone(client), buffer: sent.buffer, rank: sizes.len() })
    }

    /// Whether its memory has been given to something that ran.
    pub(in super::super) fn is_deleted(&self) -> bool {
        let mut asked = BufferIsDeleted { buffer: self.buffer, ..BufferIsDeleted::default() };
        // SAFETY: the buffer is alive, if its memory may not be.
        unsafe { self.client.api.call(&mut asked) }.is_err() || asked.is_deleted
    }

    /// Waits for arrays and copies them, each to as many bytes as it has: elements in declared order.
    pub(in super::super) fn download(reads: &mut [(&Self, &mut [u8])]) -> Result<(), Failed> {
        let begun: Vec<_> = reads
            .iter_mut()
            .map(|(buffer, bytes)| (buffer.client.api, buffer.begin(bytes)))
            .collect();
        // All are waited for, even if one has failed: until then the plugin writes to the bytes.
        let ended = begun.into_iter().map(|(api, event)| {
            let event = event?;
            let mut awaited = EventAwait { event, ..EventAwait::default() };
            // SAFETY: the event is this copy's own, and ends here.
            unsafe {
                let result = api.call(&mut awaited);
                destroy_event(api, event);
                result
            }
        });
        ended.collect::<Vec<_>>().into_iter().collect()
    }

    /// Begins a copy; its event tells of the end.
    fn begin(&self, bytes: &mut [u8]) -> Result<Handle, Failed> {
        let order: Vec<_> = (0..self.rank as i64).rev().collect();
        let layout = MemoryLayout {
            struct_size: size_of::<MemoryLayout>(),
            extension_start: ptr::null_mut(),
            tiled_size: TILED_SIZE,
            tiled_extension: ptr::null_mut(),
            minor_to_major: order.as_ptr(),
            rank: order.len(),
            tiles: ptr::null(),
            tile_ranks: ptr::null(),
            tile_count: 0,
            kind: 0,
        };
        let mut sent = ToHost {
            buffer: self.buffer,
            layout: &raw const layout,
            data: bytes.as_mut_ptr(),
            size: bytes.len(),
            ..ToHost::default()
        };
        // SAFETY: the buffer is alive, and the layout is while the call lasts. The plugin refuses fewer bytes
        // than it has to write; whoever begins a copy waits for it before others see the bytes.
        unsafe { self.client.api.call(&mut sent)? };
        Ok(sent.event)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut ended = BufferDestroy { buffer: self.buffer, ..BufferDestroy::default() };
        // SAFETY: the buffer is alive and nobody else's; what still reads it keeps its memory.
        let _ = unsafe { self.client.api.call(&mut ended) };
    }
}

/// # Safety
///
/// The event is alive, or null, and nobody uses it any more.
unsafe fn destroy_event(api: Api, event: Handle) {
    if !event.is_null() {
        // SAFETY: it is alive and nobody else's.
        let _ = unsafe { api.call(&mut EventDestroy { event, ..EventDestroy::default() }) };
    }
}
