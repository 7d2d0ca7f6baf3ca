//! What the compiler is told besides the program: the fields that are used of `CompileOptionsProto`
//! (`xla/pjrt/proto/compile_options.proto`) and of `DeviceAssignmentProto` (`xla/xla_data.proto`).

use std::collections::BTreeMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct CompileOptions {
    #[prost(message, optional, tag = "3")]
    build: Option<BuildOptions>,
    /// By the names of XLA's flags.
    #[prost(btree_map = "string, message", tag = "7")]
    overrides: BTreeMap<String, Override>,
}

#[derive(Clone, PartialEq, Message)]
struct BuildOptions {
    #[prost(int64, tag = "4")]
    replicas: i64,
    #[prost(int64, tag = "5")]
    partitions: i64,
    #[prost(message, optional, tag = "9")]
    devices: Option<DeviceAssignment>,
}

#[derive(Clone, PartialEq, Message)]
struct DeviceAssignment {
    #[prost(int32, tag = "1")]
    replicas: i32,
    #[prost(int32, tag = "2")]
    partitions: i32,
    #[prost(message, repeated, tag = "3")]
    by_partition: Vec<ReplicaDevices>,
}

#[derive(Clone, PartialEq, Message)]
struct ReplicaDevices {
    #[prost(int64, repeated, tag = "1")]
    ids: Vec<i64>,
}

/// A flag's value as it is written in `XLA_FLAGS`.
#[derive(Clone, PartialEq, Message)]
struct Override {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
}

/// Flags without which a platform's compiler departs from StableHLO: that of CPUs loses NaN in `maximum` and
/// `minimum`.
pub(super) fn meant(platform: &str) -> Vec<(String, String)> {
    let flags: &[(&str, &str)] = match platform {
        "cpu" => &[("xla_cpu_enable_fast_min_max", "False")],
        _ => &[],
    };
    flags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The options of a program that every processor runs: how many there are, the device of each by what the plugin
/// calls it, and XLA's flags with their values. Where no devices are given, the compiler takes any.
pub(super) fn compile_options(
    processors: usize,
    devices: &[i64],
    flags: &[(String, String)],
) -> Vec<u8> {
    let assigned = || DeviceAssignment {
        replicas: processors as i32,
        partitions: 1,
        by_partition: vec![ReplicaDevices { ids: devices.to_vec() }],
    };
    let build = BuildOptions {
        replicas: processors as i64,
        partitions: 1,
        devices: (!devices.is_empty()).then(assigned),
    };
    let set =
        |(name, value): &(String, String)| (name.clone(), Override { text: Some(value.clone()) });
    let overrides = flags.iter().map(set).collect();
    CompileOptions { build: Some(build), overrides }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One device's options are six bytes that clients of this interface know by heart.
    #[test]
    fn options_are_encoded_as_others_encode_them() {
        assert_eq!(compile_options(1, &[], &[]), [0x1a, 4, 0x20, 1, 0x28, 1]);
        let two = compile_options(2, &[5, 4], &[("xla_flag".to_owned(), "0".to_owned())]);
        let assignment = [8, 2, 16, 1, 26, 4, 10, 2, 5, 4];
        let build = [&[0x20, 2, 0x28, 1, 0x4a, 10][..], &assignment].concat();
        let flag = [&[10, 8][..], b"xla_flag", &[18, 3, 10, 1], b"0"].concat();
        assert_eq!(two, [&[0x1a, 16][..], &build, &[0x3a, 15], &flag].concat());
    }
}
