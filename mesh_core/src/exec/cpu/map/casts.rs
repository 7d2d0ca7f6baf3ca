//! Other dtypes of the same numbers, on tiles.

use super::instr::{one, unary};
use super::tile::{Kind, Run, Unary};
use crate::exec::cpu::vmath;
use crate::names::DType;
use half::bf16;
use std::marker::PhantomData;

unary! {
    ToF32 {
        f64 => f32, a, a as f32; i32 => f32, a, a as f32; u8 => f32, a, f32::from(a);
    }
    ToF64 {
        f32 => f64, a, f64::from(a); i32 => f64, a, f64::from(a); u8 => f64, a, f64::from(a);
    }
    ToI32 {
        f32 => i32, a, a as i32; f64 => i32, a, a as i32; u8 => i32, a, i32::from(a);
    }
    ToBool {
        f32 => u8, a, u8::from(a != 0.0);
        f64 => u8, a, u8::from(a != 0.0);
        i32 => u8, a, u8::from(a != 0);
    }
    RoundBf16 {
        f32 => f32, a, vmath::widen(vmath::narrow(a));
        f64 => f32, a, bf16::from_f64(a).to_f32();
        i32 => f32, a, bf16::from_f64(f64::from(a)).to_f32();
    }
    Widen {
        u16 => f32, a, vmath::widen(a);
    }
    Narrow {
        f32 => u16, a, vmath::narrow(a);
    }
}

/// The loop that casts; `None` where nothing changes.
pub(in crate::exec::cpu) fn cast(from: DType, to: DType) -> Option<Run> {
    use Kind::{Bool, F32, F64, I32};
    let run = match (Kind::of(from), Kind::of(to)) {
        _ if from == to => return None,
        (F32, F32) if to == DType::F32 => return None,
        (F32, F32) => one::<RoundBf16<f32>>(),
        (F64, F32) if to == DType::BF16 => one::<RoundBf16<f64>>(),
        (I32, F32) if to == DType::BF16 => one::<RoundBf16<i32>>(),
        (F64, F32) => one::<ToF32<f64>>(),
        (I32, F32) => one::<ToF32<i32>>(),
        (Bool, F32) => one::<ToF32<u8>>(),
        (F32, F64) => one::<ToF64<f32>>(),
        (I32, F64) => one::<ToF64<i32>>(),
        (Bool, F64) => one::<ToF64<u8>>(),
        (F32, I32) => one::<ToI32<f32>>(),
        (F64, I32) => one::<ToI32<f64>>(),
        (Bool, I32) => one::<ToI32<u8>>(),
        (F32, Bool) => one::<ToBool<f32>>(),
        (F64, Bool) => one::<ToBool<f64>>(),
        (I32, Bool) => one::<ToBool<i32>>(),
        (F64, F64) | (I32, I32) | (Bool, Bool) => return None,
    };
    Some(run)
}

/// The loop that makes registers of bf16 in memory.
pub(in crate::exec::cpu) fn widen() -> Run {
    one::<Widen<u16>>()
}

/// The loop that makes bf16 in memory of registers.
pub(in crate::exec::cpu) fn narrow() -> Run {
    one::<Narrow<f32>>()
}
