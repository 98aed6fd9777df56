//! The whole fast path, by the tier that decides: reception, extraction, lookup, actions, output.

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use datapath::bench::CASES;
use datapath::packet::BATCH;

fn tiers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pipeline");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    for case in CASES {
        let mut bench = case.build();
        group.bench_function(case.name, |bencher| bencher.iter(|| bench.run(1)));
    }
    group.finish();
}

criterion_group!(benches, tiers);
criterion_main!(benches);
