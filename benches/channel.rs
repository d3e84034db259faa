//! What the channel to a worker costs: a frame there and back, beside the same bytes over a bare Unix socket. The other
//! end is the same: a task that sends back whatever comes.

#![allow(clippy::unwrap_used, reason = "a benchmark may fail")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hitl::supervisor::channel::{Channel, FrameReader};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::Runtime;

const SIZES: [usize; 2] = [200, 16 * 1024];

/// A length in four bytes, and so many bytes after it.
fn frame(size: usize) -> Vec<u8> {
    let length = u32::try_from(size).unwrap();
    [length.to_be_bytes().as_slice(), &vec![b'x'; size]].concat()
}

/// One end of a pair, whose other end is an echo.
fn echoed() -> UnixStream {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    tokio::spawn(async move {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            match theirs.read(&mut bytes).await {
                Ok(length) if length > 0 => theirs.write_all(&bytes[..length]).await.unwrap(),
                _ => return,
            }
        }
    });
    ours
}

fn round_trips(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut group = criterion.benchmark_group("channel/there and back");
    for size in SIZES {
        let sent = frame(size);
        let mut stream = runtime.block_on(async { echoed() });
        group.bench_function(BenchmarkId::new("bare socket", size), |bencher| {
            let mut read = vec![0; sent.len()];
            bencher.iter(|| {
                runtime.block_on(async {
                    stream.write_all(&sent).await.unwrap();
                    stream.read_exact(&mut read).await.unwrap();
                });
            });
        });
        let channel = runtime.block_on(async { Channel::new(echoed()) });
        let mut reader = FrameReader::new(channel.clone());
        let writing = runtime.spawn({
            let channel = channel.clone();
            async move { channel.write().await }
        });
        group.bench_function(BenchmarkId::new("channel", size), |bencher| {
            bencher.iter(|| {
                runtime.block_on(async {
                    channel.send(sent.clone().into()).unwrap();
                    assert_eq!(reader.next().await.unwrap().unwrap().len(), size);
                });
            });
        });
        writing.abort();
    }
    group.finish();
}

criterion_group!(benches, round_trips);
criterion_main!(benches);
