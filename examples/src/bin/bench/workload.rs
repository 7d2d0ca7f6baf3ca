//! The workloads: their names and units.

use super::models::{CNN_BATCH, Transformer};
use super::nets;
use clap::ValueEnum;
use std::fmt;

/// A model with its batch and optimizer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Workload {
    /// 784-512-512-10, batch 128, Adam.
    #[value(name = "mlp_b128")]
    MlpB128,
    /// The same, batch 1,024.
    #[value(name = "mlp_b1024")]
    MlpB1024,
    /// Mesh TensorFlow's convolutional MNIST model, batch 200, Adafactor.
    #[value(name = "cnn_b200")]
    CnnB200,
    /// A transformer of four layers, AdamW.
    #[value(name = "lm_adamw")]
    LmAdamw,
    /// The same, Adafactor.
    #[value(name = "lm_adafactor")]
    LmAdafactor,
    /// The same, Muon for the matrices of its layers and AdamW for the rest.
    #[value(name = "lm_muon")]
    LmMuon,
    /// ResNet-18 on 64 images of 32 by 32 pixels, SGD.
    Resnet18,
    /// Ten inverted residuals of MobileNetV2 on such images, SGD.
    Mobilenet,
    /// A vision transformer of six layers on such images, AdamW.
    Vit,
    /// A U-Net of three levels on 8 images of 64 by 64 pixels, SGD.
    Unet,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MlpB128 => "mlp_b128",
            Self::MlpB1024 => "mlp_b1024",
            Self::CnnB200 => "cnn_b200",
            Self::LmAdamw => "lm_adamw",
            Self::LmAdafactor => "lm_adafactor",
            Self::LmMuon => "lm_muon",
            Self::Resnet18 => "resnet18",
            Self::Mobilenet => "mobilenet",
            Self::Vit => "vit",
            Self::Unet => "unet",
        })
    }
}

impl Workload {
    /// The name of the file with initial values and batches. Workloads with the same model share a
    /// file.
    pub(crate) fn data(self) -> &'static str {
        match self {
            Self::MlpB128 => "mlp_b128",
            Self::MlpB1024 => "mlp_b1024",
            Self::CnnB200 => "cnn_b200",
            Self::LmAdamw | Self::LmAdafactor | Self::LmMuon => "lm",
            Self::Resnet18 | Self::Mobilenet | Self::Vit | Self::Unet => "images",
        }
    }

    /// How much a step consumes, and its unit; of the language model with these sizes.
    pub(crate) fn per_step(self, sizes: &Transformer) -> (usize, &'static str) {
        match self {
            Self::MlpB128 => (128, "samples"),
            Self::MlpB1024 => (1024, "samples"),
            Self::CnnB200 => (CNN_BATCH, "samples"),
            Self::LmAdamw | Self::LmAdafactor | Self::LmMuon => {
                (sizes.batch * sizes.length, "tokens")
            }
            Self::Resnet18 | Self::Mobilenet | Self::Vit => (nets::BATCH, "samples"),
            Self::Unet => (nets::UNET_BATCH, "samples"),
        }
    }

    /// The floating-point operations in the formulas of a step's products and convolutions, forward
    /// and backward; not known of the networks for images.
    pub(crate) fn flops(self, sizes: &Transformer) -> Option<f64> {
        let dense = 784 * 512 + 512 * 512 + 512 * 10;
        let flops = match self {
            // The gradient of the pixels is not needed.
            Self::MlpB128 => 128 * (6 * dense - 2 * 784 * 512),
            Self::MlpB1024 => 1024 * (6 * dense - 2 * 784 * 512),
            Self::CnnB200 => {
                let (first, second) = (784 * 81 * 16, 784 * 81 * 256);
                CNN_BATCH * (4 * first + 6 * second + 6 * dense)
            }
            Self::LmAdamw | Self::LmAdafactor | Self::LmMuon => return Some(sizes.flops()),
            Self::Resnet18 | Self::Mobilenet | Self::Vit | Self::Unet => return None,
        };
        Some(flops as f64)
    }
}

/// The meshes and layouts that have a name.
pub(crate) fn named(name: &str) -> Option<(String, String)> {
    const MODEL: &str = "hidden1:all;heads:all;d_ff:all;vocab:all";
    let count = |prefix: &str| name.strip_prefix(prefix)?.parse::<usize>().ok();
    let all = |count: usize| format!("all:{count}");
    let data = |suffix| name.strip_suffix(suffix)?.strip_prefix("dp")?.parse::<usize>().ok();
    let (mesh, layout) = match name {
        "single" => (String::new(), ""),
        "dp2mp2" => ("b:2;m:2".to_owned(), "batch:b;hidden1:m;heads:m;d_ff:m;vocab:m"),
        "sp2" => ("b1:2".to_owned(), "rows:b1"),
        "sp4" => ("b1:2;b2:2".to_owned(), "rows:b1;cols:b2"),
        _ => match (count("dp"), count("mp"), data('z'), data('o')) {
            (Some(count), ..) => (all(count), "batch:all"),
            (_, Some(count), ..) => (all(count), MODEL),
            (_, _, Some(count), _) => (all(count), "batch:all;slots/*:all"),
            (.., Some(count)) => (all(count), "batch:all;slots/*:all@each"),
            _ => return None,
        },
    };
    Some((mesh, layout.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::models::LM;
    use super::*;

    #[test]
    fn work_is_what_the_peers_count() {
        let gflop = |workload: Workload| (workload.flops(&LM).unwrap_or(0.0) / 1e8).round() / 10.0;
        let workloads = [Workload::MlpB128, Workload::MlpB1024, Workload::CnnB200];
        assert_eq!(workloads.map(gflop), [0.4, 3.3, 21.1]);
        assert_eq!(gflop(Workload::LmAdamw), 67.6);
    }

    #[test]
    fn names_of_layouts() {
        let text = |name| named(name).map(|(mesh, layout)| format!("{mesh} {layout}"));
        assert_eq!(text("dp2").as_deref(), Some("all:2 batch:all"));
        assert_eq!(text("dp4z").as_deref(), Some("all:4 batch:all;slots/*:all"));
        assert_eq!(text("dp2o").as_deref(), Some("all:2 batch:all;slots/*:all@each"));
        assert_eq!(text("single").as_deref(), Some(" "));
        assert_eq!(text("dq"), None);
    }
}
