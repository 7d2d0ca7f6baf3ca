//! The parts of a fetched array that belong to each replica.

use super::{DatasetError, Result, arrays};
use crate::Reduction;
use mesh_core::array::Array;
use ndarray::{ArrayD, Axis};

/// One value for each replica.
///
/// ```
/// use mesh_optimize::Reduction;
/// use mesh_optimize::dataset::PerReplica;
///
/// // A loss for each of four examples, two of each replica.
/// let losses = PerReplica::parts(&ndarray::arr1(&[1f32, 2.0, 3.0, 6.0]).into(), 2)?;
/// assert_eq!(losses.values()[1], ndarray::arr1(&[3f32, 6.0]).into());
/// assert_eq!(losses.reduce(Reduction::Sum, None)?, ndarray::arr1(&[4.0, 8.0]).into_dyn());
/// assert_eq!(losses.reduce(Reduction::Mean, Some(0))?, ndarray::arr0(3.0).into_dyn());
/// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct PerReplica {
    values: Vec<Array>,
}

impl PerReplica {
    /// The values in an array whose dim at position `axis` is that of the replicas.
    ///
    /// ```
    /// # use mesh_optimize::{Reduction, dataset::PerReplica};
    /// let losses = PerReplica::along(&ndarray::arr1(&[1f32, 2.0, 3.0, 6.0]).into(), 0)?;
    /// assert_eq!(losses.reduce(Reduction::Mean, None)?, ndarray::arr0(3.0).into_dyn());
    /// # Ok::<(), mesh_optimize::dataset::DatasetError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the array has no such dim.
    pub fn along(array: &Array, axis: usize) -> Result<Self> {
        let Some(&replicas) = array.shape().get(axis) else {
            let (rank, shape) = (array.shape().len(), array.shape());
            let message =
                format!("an array of {rank} dims ({shape:?}) has no dim {axis} for replicas");
            return Err(DatasetError::Replicas(message));
        };
        Ok(Self { values: (0..replicas).map(|i| arrays::at(array, axis, i)).collect() })
    }

    /// Cuts an array along its first dim (a batch's) into one part for each replica, in order.
    ///
    /// # Errors
    ///
    /// If `replicas` is 0 or does not divide the first dim.
    pub fn parts(array: &Array, replicas: usize) -> Result<Self> {
        match array.shape().first() {
            Some(size) if replicas > 0 && size.is_multiple_of(replicas) => Ok(Self {
                values: (0..replicas).map(|i| arrays::part(array, replicas, i)).collect(),
            }),
            _ => {
                let shape = array.shape();
                let message = format!(
                    "an array of shape {shape:?} cannot be shared out among {replicas} replicas: \
                     their number must divide its first dim"
                );
                Err(DatasetError::Replicas(message))
            }
        }
    }

    /// The replicas' values, in order.
    pub fn values(&self) -> &[Array] {
        &self.values
    }

    /// The sum or the mean over replicas, computed in f64. If `axis` is given, it is also taken
    /// over that dim of each replica's value; the mean is then that of all elements.
    ///
    /// # Errors
    ///
    /// If there are no replicas, or a value has no dim `axis`.
    pub fn reduce(&self, reduction: Reduction, axis: Option<usize>) -> Result<ArrayD<f64>> {
        let mut sum: Option<ArrayD<f64>> = None;
        let mut count = self.values.len();
        for value in &self.values {
            let value = value.to_f64();
            let value = match axis {
                None => value,
                Some(axis) if axis < value.ndim() => {
                    count = self.values.len() * value.len_of(Axis(axis));
                    value.sum_axis(Axis(axis))
                }
                Some(axis) => {
                    let message =
                        format!("a replica's value of shape {:?} has no dim {axis}", value.shape());
                    return Err(DatasetError::Replicas(message));
                }
            };
            sum = Some(match sum {
                None => value,
                Some(sum) => sum + value,
            });
        }
        let sum = sum.ok_or(DatasetError::Nothing { what: "number of replicas", least: 1 })?;
        Ok(match reduction {
            Reduction::Sum => sum,
            Reduction::Mean => sum / count as f64,
        })
    }
}
