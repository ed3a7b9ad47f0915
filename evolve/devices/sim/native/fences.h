// Order through atomics: fence, atomic on a place, then another thread's atomic on that place followed
// by a fence or a block barrier. Nothing else about atomics orders memory.
#pragma once

// What a fenced atomic on `place` released: of `block`, everything before barrier number `epoch`
// (thread = ANY_THREAD), or what that thread had done up to its clock in that epoch.
struct Release { u64 place; u32 block, thread, epoch, clock; };
static const u32 RELEASES = 1 << 14, ANY_THREAD = 0xffffffffu;
static Release releases[RELEASES];
static u32 n_releases;

struct Places { u64 place[4]; u32 n; };
static Places pending[1024], acquired[1024], block_acquired;
static u64 fence_mark[1024];                  // [epoch:18 | clock:13] + 1 of the last device fence; 0: none
static bool fences_used, atomics_used;
static u32 atomics_in_a_row[1024];

static void add_place(Places* p, u64 place) {
    for (u32 i = 0; i < p->n; i++)
        if (p->place[i] == place) return;
    if (p->n < 4) p->place[p->n++] = place;
}
static void add_places(Places* to, const Places* from) {
    for (u32 i = 0; i < from->n; i++) add_place(to, from->place[i]);
}

static u32 release_slot(u64 place, u32 block, u32 thread) {
    u64 h = (place * 0x9e3779b97f4a7c15ull) ^ ((u64)block * 0xbf58476d1ce4e5b9ull) ^ ((u64)thread << 20);
    u32 i = (u32)(h >> 40) & (RELEASES - 1);
    while (releases[i].place &&
           (releases[i].place != place || releases[i].block != block || releases[i].thread != thread))
        i = (i + 1) & (RELEASES - 1);
    return i;
}

static void record_release(u64 place, u32 thread, u32 at_epoch, u32 clock) {
    u32 i = release_slot(place, (u32)block_linear, thread);
    if (!releases[i].place) {
        if (n_releases * 4 > RELEASES * 3) return;   // full: what follows looks unordered
        n_releases++;
    }
    releases[i] = {place, (u32)block_linear, thread, at_epoch, clock};
}

// Is the access stamped `s` ordered before the running thread through some place both used?
static __attribute__((noinline)) bool ordered_by_fence(u64 s) {
    if (!fences_used) return false;
    u32 block = (u32)stamp_block(s), thread = (u32)stamp_thread(s);
    u32 at_epoch = (u32)(s >> 14) & (MAX_EPOCH - 1), clock = (u32)(s >> 1) & (MAX_CLOCK - 1);
    const Places* lists[2] = {&acquired[cur], &block_acquired};
    for (const Places* p : lists)
        for (u32 i = 0; i < p->n; i++) {
            Release* whole = &releases[release_slot(p->place[i], block, ANY_THREAD)];
            if (whole->place && at_epoch < whole->epoch) return true;
            Release* own = &releases[release_slot(p->place[i], block, thread)];
            if (own->place && (at_epoch < own->epoch || (at_epoch == own->epoch && clock <= own->clock))) return true;
        }
    return false;
}

static void note_fence() {
    fences_used = true;
    fence_mark[cur] = ((epoch << 13) | lane_clock[cur]) + 1;
    add_places(&acquired[cur], &pending[cur]);
    pending[cur].n = 0;
    // Later accesses of this thread are not covered by this fence: give them another clock.
    if (++lane_clock[cur] >= MAX_CLOCK) stop_status = LIMIT;
    set_stamp();
}

static void note_atomic(u64 place) {
    atomics_used = true;
    if (fence_mark[cur]) {
        u32 at_epoch = (u32)((fence_mark[cur] - 1) >> 13), clock = (u32)(fence_mark[cur] - 1) & (MAX_CLOCK - 1);
        record_release(place, ANY_THREAD, at_epoch, 0);
        record_release(place, cur, at_epoch, clock);
    }
    add_place(&pending[cur], place);
}

static void fences_at_barrier() {
    if (!atomics_used) return;
    for (u32 t = 0; t < n_threads; t++) {
        add_places(&block_acquired, &pending[t]);
        add_places(&block_acquired, &acquired[t]);
        pending[t].n = acquired[t].n = 0;
    }
}

static void fences_new_block() {
    if (!atomics_used && !fences_used) return;
    for (u32 t = 0; t < n_threads; t++) {
        pending[t].n = acquired[t].n = 0;
        fence_mark[t] = 0;
        atomics_in_a_row[t] = 0;
    }
    block_acquired.n = 0;
}

static void fences_new_launch() {
    fences_new_block();
    fences_used = atomics_used = false;
    if (n_releases) fill_bytes(releases, 0, sizeof releases);
    n_releases = 0;
}
