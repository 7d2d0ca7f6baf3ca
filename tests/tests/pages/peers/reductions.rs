//! What folds, scans or orders.

use super::{Row, Words, rows};
use mesh_ops::prelude::*;
use mesh_ops::reduce::*;
use mesh_ops::*;

pub(super) fn all(words: &Words<'_>) -> Vec<Row> {
    let &Words { columns, rows, x, y, mask, ids, .. } = words;
    rows! {
        "sum", "jnp.sum lax.reduce_sum" => x.sum([columns]);
        "mean", "jnp.mean" => mean(x, [columns]);
        "prod", "jnp.prod lax.reduce_prod" => prod(x, [columns]);
        "amax max", "jnp.max jnp.amax lax.reduce_max" => max(x, [columns]);
        "amin min", "jnp.min jnp.amin lax.reduce_min" => min(x, [columns]);
        "aminmax", "" => (min(x, [columns]), max(x, [columns]));
        "all", "jnp.all lax.reduce_and" => mesh_ops::reduce::all(mask, [columns]);
        "any", "jnp.any lax.reduce_or" => any(mask, [columns]);
        "var", "jnp.var" => var(x, [columns], 1), "with as many degrees of freedom less as the last argument says";
        "std", "jnp.std" => std(x, [columns], 1);
        "var_mean", "" => (var(x, [columns], 1), mean(x, [columns]));
        "std_mean", "" => (std(x, [columns], 1), mean(x, [columns]));
        "nansum", "jnp.nansum" => x.equal(x).select(x, x.fill_like(0.0)).sum([columns]);
        "nanmean", "jnp.nanmean" => {
            let known = x.equal(x);
            known.select(x, x.fill_like(0.0)).sum([columns]) / known.cast(F32).sum([columns])
        };
        "", "jnp.ptp" => max(x, [columns]) - min(x, [columns]);
        "count_nonzero", "jnp.count_nonzero" => count_nonzero(mask, [columns]);
        "norm linalg.vector_norm", "jnp.linalg.norm" => vector_norm(x, 2.0, [columns]);
        "dist", "" => vector_norm(x - y, 2.0, [rows, columns]);
        "cdist", "" => {
            let others = y.rename(rows, "others");
            vector_norm(x - others, 2.0, [columns])
        };
        "median", "jnp.median" => median(x, columns);
        "quantile", "jnp.quantile jnp.percentile" => quantile(x, 0.9, columns);
        "logsumexp", "jax.scipy.special.logsumexp nn.logsumexp" => x.logsumexp(columns);
        "argmax", "jnp.argmax lax.argmax" => x.argmax(columns);
        "argmin", "jnp.argmin lax.argmin" => argmin(x, columns);
        "cumsum", "jnp.cumsum jnp.cumulative_sum lax.cumsum" => x.cumsum(columns);
        "cumprod", "jnp.cumprod jnp.cumulative_prod lax.cumprod" => cumprod(x, columns);
        "cummax", "lax.cummax" => cummax(x, columns);
        "cummin", "lax.cummin" => cummin(x, columns);
        "logcumsumexp", "lax.cumlogsumexp" => logcumsumexp(x, columns);
        "", "lax.associative_scan" => associative_scan([x, y], columns, |[a, b], [c, d]| [a * c, b * c + d]);
        "sort msort", "jnp.sort lax.sort" => sort(x, columns, Order::Ascending);
        "argsort", "jnp.argsort" => argsort(x, columns, Order::Ascending);
        "topk", "lax.top_k" => x.top_k(columns, dim("best", 3));
        "kthvalue", "" => nth_smallest(x, 2, columns), "values alone, counted from 0";
        "searchsorted bucketize", "jnp.searchsorted jnp.digitize" => {
            searchsorted(sort(x, columns, Order::Ascending), y.rename(columns, "asked"), columns, Side::Left)
        };
        "bincount", "jnp.bincount" => bincount(ids, dim("bins", 10));
        "histc histogram", "jnp.histogram" => histogram(x, dim("bins", 10), 0.0, 1.0), "bins of equal width";
        "diff", "jnp.diff" => slice(x, dim("columns", 5), 1) - slice(x, dim("columns", 5), 0);
        "trapezoid trapz", "jnp.trapezoid" => {
            let five = dim("columns", 5);
            0.5 * (slice(x, five, 1) + slice(x, five, 0)).sum([five])
        };
        "cov", "jnp.cov" => {
            let centred = x - mean(x, [columns]);
            let other = centred.rename(rows, "others");
            einsum::contract(centred, &[other], [columns]) / 5.0
        };
    }
}
