//! The structs of the interface.

use std::ffi::c_void;
use std::ptr;

/// An object of the plugin's.
pub(super) type Handle = *mut c_void;

/// Functions at the beginning of the plugin's table that it must have: up to the last that is called.
pub(super) const FUNCTIONS: usize = CompiledMemory::SLOT + 1;

#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Version {
    pub(super) struct_size: usize,
    pub(super) extension_start: Handle,
    pub(super) major: i32,
    pub(super) minor: i32,
}

/// `PJRT_Api`.
#[repr(C)]
pub(super) struct Table {
    pub(super) struct_size: usize,
    pub(super) extension_start: Handle,
    pub(super) version: Version,
    pub(super) functions: [*const c_void; FUNCTIONS],
}

/// The struct that one of the functions is given.
pub(super) trait Arguments {
    /// The function's position in the table.
    const SLOT: usize;
    const NAME: &str;
}

/// Structs that are given to the functions of a name, each with the function's position in the table.
macro_rules! arguments {
    ($($slot:literal $function:literal $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            #[derive(Clone, Copy)]
            #[repr(C)]
            pub(super) struct $name {
                pub(super) struct_size: usize,
                pub(super) extension_start: Handle,
                $(pub(super) $field: $type,)*
            }

            impl Default for $name {
                #[allow(clippy::default_trait_access, reason = "the types are the macro's")]
                fn default() -> Self {
                    Self {
                        struct_size: size_of::<Self>(),
                        extension_start: ptr::null_mut(),
                        $($field: Default::default(),)*
                    }
                }
            }

            impl Arguments for $name {
                const SLOT: usize = $slot;
                const NAME: &str = $function;
            }
        )*
    };
}

arguments! {
    0 "PJRT_Error_Destroy" ErrorDestroy { error: Handle }
    1 "PJRT_Error_Message" ErrorMessage { error: Handle, message: *const u8, size: usize }
    2 "PJRT_Error_GetCode" ErrorCode { error: Handle, code: u32 }
    3 "PJRT_Plugin_Initialize" Initialize {}
    5 "PJRT_Event_Destroy" EventDestroy { event: Handle }
    8 "PJRT_Event_Await" EventAwait { event: Handle }
    10 "PJRT_Client_Create" ClientCreate {
        options: *const NamedValue,
        option_count: usize,
        get_callback: *const c_void,
        get_argument: Handle,
        put_callback: *const c_void,
        put_argument: Handle,
        client: Handle,
        try_get_callback: *const c_void,
        try_get_argument: Handle,
    }
    11 "PJRT_Client_Destroy" ClientDestroy { client: Handle }
    12 "PJRT_Client_PlatformName" PlatformName { client: Handle, name: *const u8, size: usize }
    16 "PJRT_Client_AddressableDevices" Devices {
        client: Handle,
        devices: *const Handle,
        device_count: usize,
    }
    20 "PJRT_Client_Compile" Compile {
        client: Handle,
        program: *const ProgramText,
        options: *const u8,
        options_size: usize,
        executable: Handle,
    }
    22 "PJRT_Client_BufferFromHostBuffer" FromHost {
        client: Handle,
        data: *const u8,
        element: u32,
        sizes: *const i64,
        rank: usize,
        strides: *const i64,
        stride_count: usize,
        semantics: u32,
        device: Handle,
        memory: Handle,
        layout: *const MemoryLayout,
        done: Handle,
        buffer: Handle,
    }
    23 "PJRT_DeviceDescription_Id" DeviceId { description: Handle, id: i32 }
    29 "PJRT_Device_GetDescription" DeviceDescription { device: Handle, description: Handle }
    40 "PJRT_Executable_Destroy" ExecutableDestroy { executable: Handle }
    44 "PJRT_Executable_NumOutputs" OutputCount { executable: Handle, count: usize }
    46 "PJRT_Executable_GetCostAnalysis" CostAnalysis {
        executable: Handle,
        property_count: usize,
        properties: *const NamedValue,
    }
    48 "PJRT_Executable_OptimizedProgram" Optimized { executable: Handle, program: *mut ProgramText }
    50 "PJRT_LoadedExecutable_Destroy" LoadedDestroy { loaded: Handle }
    51 "PJRT_LoadedExecutable_GetExecutable" LoadedExecutable { loaded: Handle, executable: Handle }
    55 "PJRT_LoadedExecutable_Execute" Execute {
        loaded: Handle,
        options: *const ExecuteOptions,
        arguments: *const *const Handle,
        device_count: usize,
        argument_count: usize,
        outputs: *const *mut Handle,
        complete: *mut Handle,
        device: Handle,
    }
    58 "PJRT_Buffer_Destroy" BufferDestroy { buffer: Handle }
    68 "PJRT_Buffer_IsDeleted" BufferIsDeleted { buffer: Handle, is_deleted: bool }
    70 "PJRT_Buffer_ToHostBuffer" ToHost {
        buffer: Handle,
        layout: *const MemoryLayout,
        data: *mut u8,
        size: usize,
        event: Handle,
    }
    82 "PJRT_TopologyDescription_Create" TopologyCreate {
        name: *const u8,
        name_size: usize,
        options: *const NamedValue,
        option_count: usize,
        topology: Handle,
    }
    83 "PJRT_TopologyDescription_Destroy" TopologyDestroy { topology: Handle }
    86 "PJRT_TopologyDescription_GetDeviceDescriptions" TopologyDevices {
        topology: Handle,
        descriptions: *const Handle,
        description_count: usize,
    }
    89 "PJRT_Compile" CompileAhead {
        topology: Handle,
        program: *const ProgramText,
        options: *const u8,
        options_size: usize,
        client: Handle,
        executable: Handle,
    }
    96 "PJRT_Executable_GetCompiledMemoryStats" CompiledMemory {
        executable: Handle,
        generated_code: i64,
        arguments: i64,
        outputs: i64,
        aliased: i64,
        temporary: i64,
        on_host: [i64; 5],
        peak: i64,
        total: [i64; 4],
    }
}

/// `PJRT_NamedValue`. The value is a number's bits, or the address of `size` bytes.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct NamedValue {
    pub(super) struct_size: usize,
    pub(super) extension_start: Handle,
    pub(super) name: *const u8,
    pub(super) name_size: usize,
    pub(super) kind: u32,
    pub(super) value: u64,
    pub(super) size: usize,
}

/// Kinds of named values.
pub(super) const INTEGER: u32 = 1;
pub(super) const FLOAT: u32 = 3;

/// `PJRT_Program`.
#[repr(C)]
pub(super) struct ProgramText {
    pub(super) struct_size: usize,
    pub(super) extension_start: Handle,
    pub(super) code: *mut u8,
    pub(super) code_size: usize,
    pub(super) format: *const u8,
    pub(super) format_size: usize,
}

/// `PJRT_Buffer_MemoryLayout` of the kind that lists the dims from the innermost.
#[repr(C)]
pub(super) struct MemoryLayout {
    pub(super) struct_size: usize,
    pub(super) extension_start: Handle,
    pub(super) tiled_size: usize,
    pub(super) tiled_extension: Handle,
    pub(super) minor_to_major: *const i64,
    pub(super) rank: usize,
    pub(super) tiles: *const i64,
    pub(super) tile_ranks: *const usize,
    pub(super) tile_count: usize,
    pub(super) kind: u32,
}

/// The size of the part of a layout that lists the dims.
pub(super) const TILED_SIZE: usize = 56;

/// `PJRT_ExecuteOptions`, of which nothing is said here: whatever it has by default is zero.
#[derive(Default)]
#[repr(C)]
pub(super) struct ExecuteOptions {
    pub(super) struct_size: usize,
    pub(super) rest: [u64; 17],
}

// Sizes of the header's structs.
const _: () = {
    assert!(size_of::<Version>() == 24 && size_of::<NamedValue>() == 56);
    assert!(size_of::<ProgramText>() == 48 && size_of::<MemoryLayout>() == 80);
    assert!(size_of::<ExecuteOptions>() == 144 && size_of::<Execute>() == 80);
    assert!(size_of::<ClientCreate>() == 88 && size_of::<Compile>() == 56);
    assert!(size_of::<FromHost>() == 120 && size_of::<ToHost>() == 56);
    assert!(size_of::<TopologyCreate>() == 56 && size_of::<CompileAhead>() == 64);
    assert!(size_of::<CompiledMemory>() == 144 && size_of::<CostAnalysis>() == 40);
};
