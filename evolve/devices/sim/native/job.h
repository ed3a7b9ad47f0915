// The job file, shared with Python (`job.py` writes and reads the same layout). All fields are u64.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef __INT64_TYPE__ i64;
typedef __UINT64_TYPE__ u64;
typedef __SIZE_TYPE__ size_t;

enum Mode { CHECK = 0, TRACE = 1, PLAIN = 2, RECORD = 3 };
enum Status { STARTED = 1, FINISHED = 2, STOPPED = 3, NEED_BYTES = 4, BAD_CALL = 5, NO_MEMORY = 6, LIMIT = 7 };
enum FindingKind {
    RACE = 1, OUT_OF_BOUNDS, UNINITIALISED, MISALIGNED, DIVERGENT_BARRIER, SHUFFLE, TIMEOUT, CRASH
};
enum BufferFlags { BUF_READONLY = 1, BUF_POISONED = 2 };

struct Job {
    u64 magic, mode, grain, n_buffers, n_launches, n_orders, n_sampled;
    u64 off_buffers, off_launches, off_orders, off_sampled;
    u64 off_findings, max_findings, off_sites, max_sites, off_stats, off_shared, max_shared, off_records, max_records;
    u64 quantum, time_us, stack_bytes, arena_bytes, shared_span;
    // results
    u64 status, n_findings, n_sites, text_base, runs_done, accesses, n_shared, n_records;
};
struct Buffer {
    u64 bytes, elem, flags, data_off, out_off, mask_off, arena_off, fill, seed;
    i64 lo, hi;
    u64 differs;
};
struct Order { u64 thread_order, block_order, seed, keep; };  // 0 forward, 1 reversed, 2 permuted
struct Launch { u64 kernel, gx, gy, gz, bx, by, bz, shared, n_args, off_args, n_blocks, off_blocks; };
struct Arg { u64 kind, value; };  // kind 0: buffer index, 1: i64, 2: u64, 3: double
struct Finding {
    u64 kind, launch, order, pc, other_pc, offset, size, write;
    u64 block_a, thread_a, block_b, thread_b, line, other_line, extra, n_hints;
    u64 hints[16];
};
struct Record { u64 block, thread, pc, offset, size, kind; };  // kind 0 read, 1 write, 2 atomic
struct SharedArray { u64 id, bytes, offset; };
// Per launch and access site, summed over the sampled blocks (trace mode).
struct SiteStats {
    u64 pc, launch, space, write, size, requests, lanes, sectors, wavefronts, ideal, bytes;
    u64 lines, partial_lines;
};
// Per launch (trace mode), summed over the sampled blocks unless it says otherwise.
struct LaunchStats {
    u64 blocks, warps, barriers, shuffles, syncwarps, atomics, requests_load, requests_store;
    u64 block_sectors_read, block_sectors_written, block_bytes_read, block_bytes_written;
    u64 set_sectors_read, set_sectors_written, shared_bytes, pad;
};
