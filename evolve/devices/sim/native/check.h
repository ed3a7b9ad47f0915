// Shadow memory: who touched each granule last, in which order of barriers and warp syncs.
//
// A stamp is [block:22 | thread:10 | epoch:18 | clock:13 | atomic:1]; zero means nobody in this
// launch. `epoch` counts block barriers, `clock` the warp syncs of that lane since. Two accesses of
// one block are ordered by a barrier (different epochs) or through warp syncs (`known`); accesses of
// different blocks in one launch never are.
#pragma once

struct Cell { u64 w, r1, r2; u32 wpc, rpc; };
static Cell* cells;
static u64 me;                                    // the stamp of the running thread, now
static u64 epoch;
static u32 lane_clock[1024];
static u16 known[1024][32];                       // known[t][l]: latest clock of lane l ordered before t

static const u8 IN_FLIGHT = 16;                   // of state_map: an asynchronous copy is to arrive here (copies.h)
static const u64 MAX_BLOCK = 1 << 22, MAX_EPOCH = 1 << 18, MAX_CLOCK = 1 << 13;

static void set_stamp() {
    me = (block_linear << 42) | ((u64)cur << 32) | (epoch << 14) | ((u64)lane_clock[cur] << 1);
}
static inline u64 stamp_block(u64 s) { return s >> 42; }
static inline u64 stamp_thread(u64 s) { return (s >> 32) & 1023; }
static inline bool same_thread(u64 a, u64 b) { return ((a ^ b) >> 32) == 0; }

static bool ordered_by_fence(u64 s);

// Is the access stamped `s` ordered before what the running thread does now?
static inline bool ordered(u64 s) {
    if (s == 0 || same_thread(s, me)) return true;
    if (stamp_block(s) != stamp_block(me)) return ordered_by_fence(s);
    if (((s ^ me) >> 14) & (MAX_EPOCH - 1)) return true;
    u64 t = stamp_thread(s);
    if (!((t ^ cur) >> 5) && known[cur][t & 31] >= ((s >> 1) & (MAX_CLOCK - 1))) return true;
    return ordered_by_fence(s);
}

static __attribute__((noinline)) void race(u64 address, u64 size, bool write, u64 pc, u64 s, u32 spc, bool swrite) {
    Finding* f = report_access(RACE, address, size, write, pc);
    if (!f) return;
    f->block_b = stamp_block(s);
    f->thread_b = stamp_thread(s);
    f->other_pc = spc;
    f->extra = swrite;
}

static inline u32 relative(u64 pc) { return (u32)(pc - (u64)image); }

static inline void note_read(Cell* c, u64 address, u64 size, u64 pc) {
    if (UNLIKELY(!ordered(c->w))) race(address, size, false, pc, c->w, c->wpc, true);
    if (c->r1 == 0 || same_thread(c->r1, me) || ordered(c->r1)) {
        c->r1 = me;
        c->rpc = relative(pc);
        return;
    }
    if (c->r2 == 0 || same_thread(c->r2, me) || ordered(c->r2)) {
        c->r2 = me;
        return;
    }
    // Two others still stand. Keep the pair that no single writer can be ordered after: prefer
    // readers of different blocks, then of different warps.
    bool near_block = stamp_block(c->r1) == stamp_block(c->r2), far_block = stamp_block(me) != stamp_block(c->r1);
    bool near_warp = !((c->r1 ^ c->r2) >> 37), far_warp = (c->r1 ^ me) >> 37;
    if ((near_block && far_block) || (near_warp && far_warp)) c->r2 = me;
}

static inline void note_write(Cell* c, u64 address, u64 size, u64 pc, u64 atomic) {
    if (UNLIKELY(!ordered(c->w)) && !(atomic && (c->w & 1))) race(address, size, true, pc, c->w, c->wpc, true);
    if (UNLIKELY(!ordered(c->r1))) race(address, size, true, pc, c->r1, c->rpc, false);
    else if (UNLIKELY(!ordered(c->r2))) race(address, size, true, pc, c->r2, c->rpc, false);
    c->w = me | atomic;
    c->wpc = relative(pc);
    c->r1 = c->r2 = 0;
}

// Warp syncs: every participant learns what any of them knew, and starts a new clock tick.
static void sync_lanes(u32 warp, u32 mask) {
    u16 joint[32];
    fill_bytes(joint, 0, sizeof joint);
    for (u32 l = 0; l < 32; l++) {
        if (!((mask >> l) & 1)) continue;
        u32 t = warp * 32 + l;
        for (u32 m = 0; m < 32; m++)
            if (known[t][m] > joint[m]) joint[m] = known[t][m];
        if (lane_clock[t] > joint[l]) joint[l] = (u16)lane_clock[t];
    }
    for (u32 l = 0; l < 32; l++) {
        if (!((mask >> l) & 1)) continue;
        copy_bytes(known[warp * 32 + l], joint, sizeof joint);
        if (++lane_clock[warp * 32 + l] >= MAX_CLOCK) stop_status = LIMIT;
    }
}

static void next_epoch() {
    if (++epoch >= MAX_EPOCH) stop_status = LIMIT;
    for (u32 t = 0; t < n_threads; t++) lane_clock[t] = 1;
    fill_bytes(known, 0, sizeof(known[0]) * n_threads);
}

// The slow path of an access: something about it is not plain. Returns false when it must not happen.
static __attribute__((noinline)) bool check_slow(u64 address, u64 size, bool write, u64 pc, u64 align, u64 atomic) {
    u64 off = address - ARENA;
    if (off & (align - 1)) {
        report_access(MISALIGNED, address, size, write, pc);
        abandon(STOPPED);                 // the host's own vector instruction would fault
    }
    if ((off | size) & grain_mask) abandon(NEED_BYTES);
    bool bad = false;
    for (u64 i = off >> grain, e = (off + size) >> grain; i < e; i++) {
        u8 st = state_map[i];
        if (st & IN_FLIGHT) {
            race(address, size, write, pc, cells[i].w, cells[i].wpc, true);
            return false;
        }
        if (!(st & 1) || (write && (st & 4))) {
            Finding* f = report_access(OUT_OF_BOUNDS, address, size, write, pc);
            if (f) f->extra = st & 1;     // 1: inside, but read-only
            return false;
        }
        if ((!write || atomic) && !(st & 2)) bad = true;
    }
    if (bad) report_access(UNINITIALISED, address, size, write, pc);
    return true;
}

template <bool WRITE>
static inline void check_access(u64 address, u64 size, u64 pc, u64 align, u64 atomic) {
    u64 off = address - ARENA, first = off >> grain, last = (off + size - 1) >> grain;
    u8 all = 0xff;
    for (u64 i = first; i <= last; i++) all &= state_map[i];
    const u8 want = WRITE && !atomic ? 1 : 3;
    if (UNLIKELY((all & want) != want || (WRITE && (state_map[first] & 4)) || (off & (align - 1)) ||
                 ((off | size) & grain_mask)))
        if (!check_slow(address, size, WRITE, pc, align, atomic)) return;
    if (!WRITE && (all & 4)) return;      // read-only buffers cannot race
    for (u64 i = first; i <= last; i++) {
        if (WRITE) {
            state_map[i] |= 2 | 8;
            note_write(&cells[i], address, size, pc, atomic);
        } else {
            note_read(&cells[i], address, size, pc);
        }
    }
}
